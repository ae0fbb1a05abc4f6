package agent

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestWithIdentity(t *testing.T) {
	n := node.Node{Cluster: "web.shop", Metadata: mesh.NodeMetadata{
		Name: "web-1", WorkloadName: "web-v1", Namespace: "shop", ClusterID: "Kubernetes", Labels: map[string]string{"app": "web", "version": "1,5"},
	}}
	tests := []struct {
		name           string
		environ        []string
		variable, want string
	}{
		{"service", nil, "ISTIO_CANONICAL_SERVICE", "web"},
		{"revision", nil, "ISTIO_CANONICAL_REVISION", "1,5"},
		{"namespace", nil, "ISTIO_NAMESPACE", "shop"},
		{"cluster", nil, "ISTIO_CLUSTER_ID", "Kubernetes"},
		{"no mesh id", nil, "ISTIO_MESH_ID", ""},
		{"Datadog", nil, "DD_SERVICE", "web.shop"},
		{"Datadog, chosen", []string{"DD_SERVICE=mine"}, "DD_SERVICE", "mine"},
		{"OpenTelemetry", nil, "OTEL_RESOURCE_ATTRIBUTES", "service.name=web.shop,service.namespace=shop,service.version=1%2C5,service.instance.id=web-1"},
		{"OpenTelemetry, in part", []string{"OTEL_RESOURCE_ATTRIBUTES=service.name=mine,a=b"}, "OTEL_RESOURCE_ATTRIBUTES",
			"service.name=mine,a=b,service.namespace=shop,service.version=1%2C5,service.instance.id=web-1"},
		{"others", []string{"PATH=/bin"}, "PATH", "/bin"},
	}
	for _, test := range tests {
		cmd := exec.Command("/usr/bin/env") // as Envoy sees them: one of two equal names is used
		cmd.Env = addWorkloadVariables(test.environ, n)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(string(out)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name == test.variable {
				got = value
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
