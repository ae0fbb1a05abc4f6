package routing

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
)

const (
	listenerType = api.ListenerType
	clusterType  = api.ClusterType
	idHeader     = backend.IDHeader
)

// TestExplained evaluates every case on the generated configuration.
func TestExplained(t *testing.T) {
	s := newScene(t)
	for _, topic := range s.table.Topics {
		t.Run(topic.Name, func(t *testing.T) {
			for _, c := range topic.Cases {
				t.Run(c.Name, func(t *testing.T) {
					if c.Unexplained != "" {
						t.Skip(c.Unexplained)
					}
					path, err := s.explain(c)
					if err != nil {
						t.Fatal(err)
					}
					wrong := s.judgePath(c, path)
					if c.Broken != "" {
						t.Skipf("known to be broken: %s: %q", c.Broken, wrong)
					}
					for _, w := range wrong {
						t.Error(w)
					}
					if t.Failed() {
						t.Logf("\n%s", path)
					}
				})
			}
		})
	}
}
