package vm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// patience bounds every wait.
const patience = 40 * time.Second

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// executable returns the path of a program, such as pilot-agent, that every user can run.
func executable(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := program.Into(t.Context(), dir, "cmd/"+name); err != nil {
		t.Fatal(err)
	}
	path, err := netns.Expose(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
