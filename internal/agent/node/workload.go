package node

import (
	"cmp"
)

// Workload holds the labels of the proxy's workload in telemetry. Unknown ones are "".
type Workload struct {
	Name, Namespace, CanonicalService, CanonicalRevision, App, Version, Cluster, MeshID string
}

// Workload returns the labels of the node's workload in telemetry. The canonical service is empty
// if neither labels nor a workload name determine it. The canonical revision comes from labels too,
// and is "latest" without them.
func (n Node) Workload() Workload {
	m := n.Metadata
	w := Workload{
		Name: m.WorkloadName, Namespace: m.Namespace, App: m.Labels["app"], Version: m.Labels["version"],
		CanonicalRevision: cmp.Or(
			m.Labels["service.istio.io/canonical-revision"], m.Labels["app.kubernetes.io/version"],
			m.Labels["version"], "latest",
		),
		Cluster: m.ClusterID, MeshID: m.MeshID,
	}
	if name := canonicalName(m); name != defaultServiceCluster {
		w.CanonicalService = name
	}
	return w
}
