package analysis

import (
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestCachedSearchesForNewSnapshotsAndNotTooOften uses a clock that a search advances by 100 ms, so
// that the pause after it is 2 s.
func TestCachedSearchesForNewSnapshotsAndNotTooOften(t *testing.T) {
	now, version, searches := time.Unix(1000, 0), uint64(1), 0
	c := NewCached(func() []config.Problem {
		searches++
		now = now.Add(100 * time.Millisecond)
		return []config.Problem{{Reason: "conflict"}}
	}, func() uint64 { return version }, func() time.Time { return now })
	for i, step := range []struct {
		passed  time.Duration
		version uint64
		want    int // searches so far
	}{
		{0, 1, 1}, {time.Hour, 1, 1}, {0, 2, 2}, {time.Second, 3, 2}, {time.Second, 3, 3}, {time.Hour, 3, 3},
	} {
		now, version = now.Add(step.passed), step.version
		if list := c.Problems(); len(list) != 1 || searches != step.want {
			t.Errorf("step %d: %v after %d searches, want %d", i, list, searches, step.want)
		}
	}
}
