package meshtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// startTime bounds how long a mesh takes to be up.
const startTime = 90 * time.Second

// Start brings a mesh up; it ends with the test. Where it does not come up, the end of the log of
// whoever failed is shown.
func Start(t *testing.T, o mesh.Options) *mesh.Mesh {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	m, err := mesh.Start(ctx, o)
	if err != nil {
		var p *netns.ProcessError
		if errors.As(err, &p) {
			t.Logf("the end of its log:\n%s", p.Tail(30))
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Build puts all programs that a mesh needs into a folder, built from this checkout.
func Build(dir string) error {
	return program.Into(context.Background(), dir,
		"cmd/pilot-discovery", "cmd/pilot-agent", "cmd/istio-iptables", "cmd/pilotctl", "samples/bookinfo/app")
}
