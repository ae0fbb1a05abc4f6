package main

import (
	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// applyRegistry sets o from the environment variables about the conversion of objects to services.
// Unset variables leave o's values or set Istio's defaults. ReadyOnly is set only if
// PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS is false and PILOT_SEND_UNHEALTHY_ENDPOINTS is not true. The
// first invalid value is recorded in e.err.
func (e *environment) applyRegistry(o *options.Registry) {
	e.setText("K8S_INGRESS_NS", &o.IngressNamespace)
	o.ReadyOnly = !e.boolOr("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", true) &&
		!e.boolOr("PILOT_SEND_UNHEALTHY_ENDPOINTS", false)
	e.setLabel("PILOT_PERSISTENT_SESSION_LABEL", &o.Labels.Session)
	e.setLabel("PILOT_PERSISTENT_SESSION_HEADER_LABEL", &o.Labels.SessionHeader)
	e.setLabel("PILOT_DRAINING_LABEL", &o.Labels.Draining)
	o.SelectWorkloadEntries = e.boolOr("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", o.SelectWorkloadEntries)
	o.DiscoverGateways = e.boolOr("PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API", o.DiscoverGateways)
	o.Export = e.boolOr("ENABLE_MCS_AUTO_EXPORT", false)
	o.ClusterSet.Exports = e.boolOr("ENABLE_MCS_SERVICE_DISCOVERY", false)
	o.ClusterSet.Hosts = e.boolOr("ENABLE_MCS_HOST", false)
	o.ClusterSet.Local = e.boolOr("ENABLE_MCS_CLUSTER_LOCAL", false)
	o.SelectPods = e.boolOr("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", o.SelectPods)
}

// setLabel reads the name of a label into *to. An empty value disables the feature that uses the
// label. If the variable is unset, *to is unchanged.
func (e *environment) setLabel(name string, to *string) {
	v, ok := e.lookup(name)
	if !ok {
		return
	}
	if v == "" {
		v = mesh.NoLabel
	}
	*to = v
}
