package ca

import (
	"maps"
	"time"
)

// contest is what happens where another program writes the same ConfigMaps with other roots: a second control plane with an authority
// of its own, during a migration for instance. Each puts right what the other one did, at once and for ever, unless one of them waits.
type contest struct {
	now     func() time.Time
	written map[string]*writing
	// told says that it was logged: one namespace tells of all.
	told bool
}

// writing is what was last written into a namespace.
type writing struct {
	data map[string]string
	last time.Time
	// undone is how often it was found to be something else soon after.
	undone int
}

const (
	// firstPause is how long what was undone once stays so; the pause doubles with each time, up to lastPause.
	firstPause, lastPause = 100 * time.Millisecond, time.Minute
	// peace is how long nobody must have undone anything for it to be forgotten.
	peace = 10 * time.Minute
	// isContest is how often it takes to tell a contest from somebody's edits.
	isContest = 5
)

// pause says how long to wait before data is written into a namespace, 0 if it may be written now, which then counts as done. It says
// too whether this is where a contest becomes one, for the first time.
func (c *contest) pause(namespace string, data map[string]string) (wait time.Duration, contested bool) {
	now := c.now()
	w := c.written[namespace]
	if w == nil || !maps.Equal(w.data, data) || now.Sub(w.last) > peace {
		c.written[namespace] = &writing{data: data, last: now}
		return 0, false
	}
	pause := lastPause
	if w.undone < 10 {
		pause = min(firstPause<<w.undone, lastPause)
	}
	if since := now.Sub(w.last); since < pause {
		return pause - since, false
	}
	w.undone, w.last = w.undone+1, now
	contested = w.undone >= isContest && !c.told
	c.told = c.told || contested
	return 0, contested
}
