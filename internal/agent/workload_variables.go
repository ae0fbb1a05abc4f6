package agent

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// addWorkloadVariables returns environ, which is not modified, with the variables appended that
// span tags refer to (ISTIO_CANONICAL_SERVICE and others) and DD_SERVICE. Listeners are shared by
// many workloads, so their configuration names variables instead of values. A variable that environ
// has is kept, and an unknown value adds none. OTEL_RESOURCE_ATTRIBUTES is repeated with the
// service's attributes, and the last entry of a name applies.
func addWorkloadVariables(environ []string, n node.Node) []string {
	w := n.Workload()
	all := environ[:len(environ):len(environ)]
	set := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		set[name] = value
	}
	for _, v := range [][2]string{
		{"ISTIO_CANONICAL_SERVICE", w.CanonicalService},
		{"ISTIO_CANONICAL_REVISION", w.CanonicalRevision},
		{"ISTIO_NAMESPACE", w.Namespace},
		{"ISTIO_CLUSTER_ID", w.Cluster},
		{"ISTIO_MESH_ID", w.MeshID},
		{"DD_SERVICE", n.Cluster}, // for Datadog's tracer
	} {
		if _, there := set[v[0]]; !there && v[1] != "" {
			all = append(all, v[0]+"="+v[1])
		}
	}
	// exec.Cmd uses the last of two equal names.
	if with := resourceAttributes(set["OTEL_RESOURCE_ATTRIBUTES"], n); with != "" {
		all = append(all, "OTEL_RESOURCE_ATTRIBUTES="+with)
	}
	return all
}

// resourceAttributes returns given, the value of OTEL_RESOURCE_ATTRIBUTES, with the attributes
// service.name, .namespace, .version and .instance.id appended, escaped. It skips attributes that
// are empty or that given already has. Elements of given without "=" are dropped. See
// https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable
func resourceAttributes(given string, n node.Node) string {
	var list []string
	has := map[string]bool{}
	for one := range strings.SplitSeq(given, ",") {
		if name, _, ok := strings.Cut(one, "="); ok {
			list = append(list, one)
			has[strings.TrimSpace(name)] = true
		}
	}
	w := n.Workload()
	for _, a := range [][2]string{
		{"service.name", n.Cluster},
		{"service.namespace", w.Namespace},
		{"service.version", w.Version},
		{"service.instance.id", n.Metadata.Name},
	} {
		if a[1] != "" && !has[a[0]] {
			list = append(list, a[0]+"="+strings.NewReplacer(",", "%2C", "=", "%3D", "%", "%25").Replace(a[1]))
		}
	}
	return strings.Join(list, ",")
}
