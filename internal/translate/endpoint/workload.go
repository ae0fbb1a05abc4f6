package endpoint

import (
	"cmp"
	"strings"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// workload names what is behind an endpoint in the short form that Istio's telemetry reads from the endpoint's metadata:
// "workload;namespace;canonical service;canonical revision;cluster". The revision is left out where it is the default.
// It is "" for an address of which nothing of the kind is known.
func workload(e *mesh.Endpoint) string {
	name := cmp.Or(e.Owner, e.Workload)
	service := cmp.Or(e.Labels[label.ServiceCanonicalName.Name], e.Labels["app.kubernetes.io/name"], e.Labels["app"], name)
	if service == "" {
		return ""
	}
	revision := cmp.Or(e.Labels[label.ServiceCanonicalRevision.Name], e.Labels["app.kubernetes.io/version"], e.Labels["version"])
	if revision == "latest" {
		revision = ""
	}
	return strings.Join([]string{name, e.Namespace, service, revision, string(e.Cluster)}, ";")
}
