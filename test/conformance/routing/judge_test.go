package routing

import (
	"math"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

// wrong collects differences.
type wrong = calltest.Differences

// judgePath returns the differences between an explanation and the expectation of a case.
func (s *scene) judgePath(c *table.Case, p *explain.Path) []string {
	return calltest.Judge(&c.Case, p, s.table.Instance)
}

// seenShares holds counted shares against those wanted, as far as chance allows.
func seenShares[K comparable](w *wrong, what string, want map[K]float64, got map[K]int, times int) {
	for name, percent := range want {
		p := percent / 100
		share := float64(got[name]) / float64(times)
		// Five standard deviations: one in a million is beyond.
		if slack := 5*math.Sqrt(p*(1-p)/float64(times)) + 1e-9; math.Abs(share-p) > slack {
			w.Add("%s %v in %d of %d calls, want %.1f%%", what, name, got[name], times, percent)
		}
	}
	for name, n := range got {
		if _, wanted := want[name]; !wanted {
			w.Add("%s %v in %d of %d calls, want none", what, name, n, times)
		}
	}
}
