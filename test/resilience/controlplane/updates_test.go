package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/controlplane/history"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// visible is the time within which every proxy must see an operation, including the restart of
	// killed replicas and the proxies' backoff.
	visible = 30 * time.Second
	// shown is the maximum number of printed faults of a kind.
	shown = 5
)

// TestNoUpdateIsLost edits rules and endpoints while replicas of the control plane are killed,
// stopped and paused and files are written in pieces. It records every operation and all resources
// that proxies are sent, and checks that each operation is seen within a bound, that no generation
// decreases, and that no route refers to a missing cluster.
func TestNoUpdateIsLost(t *testing.T) {
	length := scorecard.BySize(15*time.Second, 4*time.Minute, 2*time.Hour)
	proxies, hosts := scorecard.BySize(6, 20, 40), scorecard.BySize(8, 20, 50)
	envoys := 1
	if scorecard.Peer() != "" {
		envoys = 0 // upstream Envoy rejects listeners with the extensions that istiod uses
	}
	size := []scorecard.Figure{scorecard.Size("duration", length), scorecard.Size("recorded proxies", proxies), scorecard.Size("real Envoys", envoys),
		scorecard.Size("objects", 2*hosts)}
	order, lost := scorecard.Check(t, 16, size...), scorecard.Check(t, 43, size...)
	longtest.Test(t)
	if envoys > 0 { // built before the first operation, so that no operation waits for the build
		if _, err := program.Build(t.Context(), "cmd/pilot-agent"); err != nil {
			t.Fatal(err)
		}
	}
	log := &history.Log{}
	run := newChaos(t, log, hosts)
	for i := range proxies {
		run.record(t, fmt.Sprint("proxy-", i), i)
	}
	if envoys > 0 {
		run.recordEnvoy(t, "envoy")
	}
	serving.Eventually(t, patience, "the first configuration at all proxies", log.Reached)
	run.play(t, length)
	serving.Eventually(t, visible+patience, "the last configuration at all proxies", log.Reached)

	r := log.Check(visible)
	for _, check := range []scorecard.Record{order, lost} {
		check.Measured("operations", r.Operations)
		check.Measured("observations", r.Observations)
		check.Measured("faults", strings.Join(run.faultCounts(), " and "))
		check.Measured("mixed states", len(r.Mixed))
	}
	lost.Measured("unseen or late", len(r.Unseen))
	lost.Measured("reordered", len(r.Reordered))
	lost.Measured("longest until seen", r.Worst)
	for kind, list := range map[string][]string{"unseen or late": r.Unseen, "reordered": r.Reordered, "mixed": r.Mixed} {
		if len(list) > 0 {
			t.Errorf("%d %s:\n%s", len(list), kind, strings.Join(list[:min(shown, len(list))], "\n"))
		}
	}
	if slices.Contains(run.faultCounts(), "") || r.Observations == 0 {
		t.Errorf("faults %v, %d observations: the run proves nothing", run.faultCounts(), r.Observations)
	}
}
