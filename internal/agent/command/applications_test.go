package command

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

// TestApplications: the agent merges the metrics of the endpoints that the injector has recorded, except
// for its own port. As in Istio, it does not read the pod's own annotations: they may be for another
// scraper, or merging may be disabled.
func TestApplications(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "etc/istio/pod/annotations", []byte(`prometheus.io/port="8080,metrics"`))
	for recorded, want := range map[string][]environment.Application{
		"": nil,
		`{"targets":[{"port":"15020","path":"/stats/prometheus"},{"port":"9090","path":"/m"}]}`: {{Port: 9090, Path: "/m"}},
	} {
		var got []environment.Application
		var out bytes.Buffer
		args := []string{"proxy"}
		root := NewWithRunner(Options{Args: args, Stdout: &out, Stderr: &out, Environ: []string{
			"POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IP=10.0.0.1", "INSTANCE_IPS=10.0.0.1",
			`PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE"}`, "ISTIO_PROMETHEUS_ANNOTATIONS=" + recorded,
		}}, func(_ context.Context, o agent.Options) error {
			got = o.Applications
			return nil
		})
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: applications %v, want %v", recorded, got, want)
		}
	}
}
