package ca

import (
	"maps"
	"time"
)

// writeConflicts detects another program that writes other roots into the same ConfigMaps, such as
// a second control plane with its own authority during a migration. Without a backoff both would
// overwrite each other in an endless loop.
type writeConflicts struct {
	now    func() time.Time
	writes map[string]*lastWrite
	// logged is true once a conflict was logged. One log entry covers all namespaces.
	logged bool
}

// lastWrite is the last write into one namespace.
type lastWrite struct {
	data map[string]string
	at   time.Time
	// overwritten is how often another program replaced data soon after it was written.
	overwritten int
}

const (
	// minWriteBackoff is how long the first overwritten data stays. The backoff doubles with each
	// conflict, up to maxWriteBackoff.
	minWriteBackoff, maxWriteBackoff = 100 * time.Millisecond, time.Minute
	// resetAfter is the time without a conflict after which earlier ones are forgotten.
	resetAfter = 10 * time.Minute
	// conflictThreshold is the number of conflicts that are logged as another writer and not as a
	// single edit.
	conflictThreshold = 5
)

// reserveWrite returns how long to wait before data may be written into a namespace's ConfigMap. If
// it returns 0, it records the write. Data other than the last written, or written more than
// resetAfter ago, need not wait. Otherwise another program has replaced data: the delay since the
// last write is minWriteBackoff, doubled for each such write, up to maxWriteBackoff. contested is
// true once per c, for the first write that makes a namespace reach conflictThreshold.
func (c *writeConflicts) reserveWrite(namespace string, data map[string]string) (wait time.Duration, contested bool) {
	now := c.now()
	w := c.writes[namespace]
	if w == nil || !maps.Equal(w.data, data) || now.Sub(w.at) > resetAfter {
		c.writes[namespace] = &lastWrite{data: data, at: now}
		return 0, false
	}
	pause := maxWriteBackoff
	if w.overwritten < 10 {
		pause = min(minWriteBackoff<<w.overwritten, maxWriteBackoff)
	}
	if since := now.Sub(w.at); since < pause {
		return pause - since, false
	}
	w.overwritten, w.at = w.overwritten+1, now
	contested = w.overwritten >= conflictThreshold && !c.logged
	c.logged = c.logged || contested
	return 0, contested
}
