package main

import (
	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// registry reads how objects are converted to services.
func (e *environment) registry(o *discovery.Registry) {
	e.text("K8S_INGRESS_NS", &o.IngressNamespace)
	o.ReadyOnly = !e.boolean("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", true) && !e.boolean("PILOT_SEND_UNHEALTHY_ENDPOINTS", false)
	e.label("PILOT_PERSISTENT_SESSION_LABEL", &o.Labels.Session)
	e.label("PILOT_PERSISTENT_SESSION_HEADER_LABEL", &o.Labels.SessionHeader)
	e.label("PILOT_DRAINING_LABEL", &o.Labels.Draining)
	o.DualStack = e.boolean("ISTIO_DUAL_STACK", false)
	o.IgnoreWorkloadEntries = !e.boolean("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", true)
	o.IgnoreGateways = !e.boolean("PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API", true)
	o.Export = e.boolean("ENABLE_MCS_AUTO_EXPORT", false)
	o.ClusterSet.Exports = e.boolean("ENABLE_MCS_SERVICE_DISCOVERY", false)
	o.ClusterSet.Hosts = e.boolean("ENABLE_MCS_HOST", false)
	o.ClusterSet.Local = e.boolean("ENABLE_MCS_CLUSTER_LOCAL", false)
	o.IgnorePods = !e.boolean("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", true)
}

// label reads the name of a label. An empty value disables the feature that uses the label.
func (e *environment) label(name string, to *string) {
	v, ok := e.lookup(name)
	if !ok {
		return
	}
	if v == "" {
		v = mesh.NoLabel
	}
	*to = v
}
