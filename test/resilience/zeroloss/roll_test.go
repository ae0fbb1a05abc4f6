package zeroloss

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// previousCommit is used as the previous release until a tag exists.
const previousCommit = "0384a5e"

// TestVersionRoll rolls two replicas of the control plane from the previous release to this one and
// back, one after the other, while requests run. Real sidecars must lose no request and replace no
// listener: both versions serve the same bytes.
func TestVersionRoll(t *testing.T) {
	rolls := scorecard.BySize(1, 10, 100)
	check := scorecard.Check(t, 6, scorecard.Size("rolls forward and back", rolls), scorecard.Size("replicas", 2))
	scorecard.Heavy(t) // it builds another version
	netns.Require(t)
	previous, version := previousControlPlane(t)
	check.Measured("N-1 is", version)
	var current, installed string
	w := startReplicas(t, 2, func(bin string) {
		installed = filepath.Join(bin, "pilot-discovery")
		current = filepath.Join(t.TempDir(), "pilot-discovery")
		if err := os.Rename(installed, current); err != nil {
			t.Fatal(err)
		}
		install(t, previous, installed)
	})
	s := startStage(t, w)
	logs := newEvidence(w)
	const forward, back = "N-1 to N", "N to N-1"
	for range rolls {
		s.roll(t, forward, current, installed)
		s.roll(t, back, previous, installed)
	}
	done := s.churn[forward].plus(s.churn[back])
	check.Measured("replicas replaced", len(s.took[forward])+len(s.took[back]))
	check.Measured("listeners modified", done.chains+done.listeners)
	check.Measured("clusters modified", done.clusters)
	s.finish(t, logs, check, forward, back)
}

// roll replaces all replicas by another program, one after the other.
func (s *stage) roll(t *testing.T, name, binary, installed string) {
	t.Helper()
	for _, replica := range s.planes() {
		s.play(t, event{name: name, seen: generationSeen, still: true, do: func(ctx context.Context, s *stage) error {
			if err := replica.Stop(); err != nil {
				return err
			}
			install(t, binary, installed)
			if err := replica.Start(ctx); err != nil {
				return err
			}
			return edit(func(*state) {})(ctx, s)
		}})
	}
}

// install makes a program the one that replicas start.
func install(t *testing.T, binary, as string) {
	t.Helper()
	if err := os.Remove(as); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, as); err != nil {
		t.Fatal(err)
	}
}

// previousControlPlane builds pilot-discovery of the release before, once, and returns its path and
// its version.
func previousControlPlane(t *testing.T) (binary, version string) {
	t.Helper()
	binary, version, err := program.BuildPrevious(t.Context(), previousCommit, "cmd/pilot-discovery")
	if err != nil {
		t.Skip(err)
	}
	return binary, version
}
