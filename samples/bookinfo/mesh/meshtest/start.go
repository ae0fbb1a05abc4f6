package meshtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/testkit/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

// startTime bounds how long a mesh takes to be up.
const startTime = 90 * time.Second

// Start brings a mesh up; it ends with the test. Where it does not come up, the end of the log of whoever failed is shown.
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

// Build builds all programs that a mesh needs into a folder, as the go command finds them from within the module.
func Build(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const module = "github.com/meshpilot/meshpilot/"
	for _, args := range [][]string{{"-o", dir + "/", module + "cmd/..."}, {"-o", filepath.Join(dir, "bookinfo"), module + "samples/bookinfo/app"}} {
		out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build %v: %w\n%s", args, err, out)
		}
	}
	return nil
}
