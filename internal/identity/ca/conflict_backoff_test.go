package ca

import (
	"testing"
	"time"
)

// TestWriteConflicts lets another program overwrite every write at once: the backoff grows, and one
// conflict is logged.
func TestWriteConflicts(t *testing.T) {
	now := time.Unix(1000, 0)
	c := writeConflicts{now: func() time.Time { return now }, writes: map[string]*lastWrite{}}
	ours := map[string]string{RootConfigMapKey: "ours"}
	writes, told := 0, 0
	for end := now.Add(time.Hour); now.Before(end); {
		wait, contested := c.reserveWrite("a", ours)
		if contested {
			told++
		}
		if wait == 0 {
			writes++
		}
		now = now.Add(max(wait, time.Millisecond))
	}
	if writes < 60 || writes > 75 || told != 1 {
		t.Errorf("%d writes and %d reports within an hour; want one write a minute at last, and one report", writes, told)
	}
	if wait, _ := c.reserveWrite("b", ours); wait != 0 {
		t.Errorf("another namespace waits for %v", wait)
	}
	if wait, _ := c.reserveWrite("a", map[string]string{RootConfigMapKey: "a new root"}); wait != 0 {
		t.Errorf("other roots wait for %v", wait)
	}
	now = now.Add(resetAfter + time.Second)
	for range 3 { // an edit now and then is put right at once
		if wait, contested := c.reserveWrite("b", ours); wait != 0 || contested {
			t.Errorf("an edit is put right after %v", wait)
		}
		now = now.Add(time.Second)
	}
}
