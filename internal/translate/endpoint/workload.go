package endpoint

import (
	"cmp"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// workload is what is behind an endpoint. service is empty for an address of which nothing of the kind is known.
type workload struct {
	name, namespace, service, revision, cluster string
}

func workloadOf(e *mesh.Endpoint) workload {
	w := workload{name: cmp.Or(e.Owner, e.Workload), namespace: e.Namespace, cluster: string(e.Cluster)}
	w.service = first(e.Labels, label.ServiceCanonicalName.Name, "app.kubernetes.io/name", "app")
	if w.service == "" {
		w.service = w.name
	}
	w.revision = first(e.Labels, label.ServiceCanonicalRevision.Name, "app.kubernetes.io/version", "version")
	if w.revision == "latest" {
		w.revision = ""
	}
	return w
}

// first gives the first of the labels that is not empty.
func first(labels map[string]string, names ...string) string {
	for _, n := range names {
		if value := labels[n]; value != "" {
			return value
		}
	}
	return ""
}

// append writes the workload in the short form that Istio's telemetry reads from the endpoint's metadata:
// "workload;namespace;canonical service;canonical revision;cluster". The revision is left out where it is the default.
func (w workload) append(b []byte) []byte {
	b = append(append(b, w.name...), ';')
	b = append(append(b, w.namespace...), ';')
	b = append(append(b, w.service...), ';')
	b = append(append(b, w.revision...), ';')
	return append(b, w.cluster...)
}
