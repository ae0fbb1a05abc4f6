package endpoint

import (
	"cmp"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// workload is the workload behind an endpoint. service is empty if the workload is unknown.
type workload struct {
	name, namespace, service, revision, cluster string
}

// workloadOf returns the workload of an endpoint, as telemetry names it. Its name is the owner's,
// such as a Deployment's, or else the workload's own. The service (canonical service) and revision
// are taken from labels; without a label the service is the name. The revision "latest" becomes "".
func workloadOf(e *mesh.Endpoint) workload {
	w := workload{name: cmp.Or(e.Owner, e.Workload), namespace: e.Namespace, cluster: string(e.Cluster)}
	w.service = firstLabel(e.Labels, label.ServiceCanonicalName.Name, "app.kubernetes.io/name", "app")
	if w.service == "" {
		w.service = w.name
	}
	w.revision = firstLabel(e.Labels, label.ServiceCanonicalRevision.Name, "app.kubernetes.io/version", "version")
	if w.revision == "latest" {
		w.revision = ""
	}
	return w
}

// firstLabel returns the first value that is not empty of the labels with these names, or "".
func firstLabel(labels map[string]string, names ...string) string {
	for _, n := range names {
		if value := labels[n]; value != "" {
			return value
		}
	}
	return ""
}

// appendTo appends the workload in the short form that Istio's telemetry reads from endpoint
// metadata: "workload;namespace;canonical service;canonical revision;cluster". The revision is
// empty if it is the default.
func (w workload) appendTo(b []byte) []byte {
	b = append(append(b, w.name...), ';')
	b = append(append(b, w.namespace...), ';')
	b = append(append(b, w.service...), ';')
	b = append(append(b, w.revision...), ';')
	return append(b, w.cluster...)
}
