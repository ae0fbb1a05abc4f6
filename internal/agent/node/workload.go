package node

import (
	"cmp"
)

// Workload is what telemetry shows of the workload that the proxy is beside. What is not known is "".
type Workload struct {
	Name, Namespace, CanonicalService, CanonicalRevision, App, Version, Cluster, MeshID string
}

// Workload gives what telemetry shows.
func (n Node) Workload() Workload {
	m := n.Metadata
	w := Workload{
		Name: m.WorkloadName, Namespace: m.Namespace, App: m.Labels["app"], Version: m.Labels["version"],
		CanonicalRevision: cmp.Or(m.Labels["service.istio.io/canonical-revision"], m.Labels["app.kubernetes.io/version"], m.Labels["version"], "latest"),
		Cluster:           m.ClusterID, MeshID: m.MeshID,
	}
	if name := canonicalName(m); name != unnamed {
		w.CanonicalService = name
	}
	return w
}
