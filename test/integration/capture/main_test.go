package capture

import (
	"os"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// patience bounds every wait.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// binaries are the paths of programs of ours, at which every user can run them.
type binaries struct{ discovery, agent string }

func build(t *testing.T) (b binaries) {
	t.Helper()
	for name, path := range map[string]*string{"pilot-discovery": &b.discovery, "pilot-agent": &b.agent} {
		built, err := program.Build(t.Context(), "cmd/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if *path, err = netns.Expose(built); err != nil {
			t.Fatal(err)
		}
	}
	return b
}
