package analysis

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Cached limits how often Problems that are slow to find are searched for. It is safe for
// concurrent use.
type Cached struct {
	find    func() []config.Problem
	version func() uint64
	now     func() time.Time

	mu    sync.Mutex
	of    uint64
	list  []config.Problem
	after time.Time // no search before
}

// NewCached returns a Cached that calls find if the result of version, the version of the newest
// snapshot, has changed. Version 0 is before the first snapshot: find is not called then. Searches
// take at most a twentieth of the time (see [Pause]). If now is nil, time.Now is used.
func NewCached(find func() []config.Problem, version func() uint64, now func() time.Time) *Cached {
	if now == nil {
		now = time.Now
	}
	return &Cached{find: find, version: version, now: now}
}

// Problems returns the Problems of the last search. It searches again if the version has changed
// and the pause after the last search is over. Other callers wait during a search. All share the
// list, so it must not be modified.
func (c *Cached) Problems() []config.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	began, version := c.now(), c.version()
	if c.of == version || began.Before(c.after) {
		return c.list
	}
	c.list = c.find()
	c.of, c.after = version, began.Add(Pause(c.now().Sub(began)))
	return c.list
}
