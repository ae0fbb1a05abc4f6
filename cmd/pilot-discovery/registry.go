package main

import "github.com/meshpilot/meshpilot/internal/discovery"

// registry reads how services are made of objects.
func (e *environment) registry(o *discovery.Registry) {
	e.text("K8S_INGRESS_NS", &o.IngressNamespace)
	o.ReadyOnly = !e.boolean("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", true)
	o.DualStack = e.boolean("ISTIO_DUAL_STACK", false)
	o.IgnoreWorkloadEntries = !e.boolean("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", true)
	o.ClusterSet.Exports = e.boolean("ENABLE_MCS_SERVICE_DISCOVERY", false)
	o.ClusterSet.Hosts = e.boolean("ENABLE_MCS_HOST", false)
	o.ClusterSet.Local = e.boolean("ENABLE_MCS_CLUSTER_LOCAL", false)
	o.IgnorePods = !e.boolean("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", true)
}
