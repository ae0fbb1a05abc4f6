package watch

import "time"

// Burst debounces changes: a file is read after the last write of a burst of changes, not during
// it. The zero Burst has no pending changes.
type Burst struct {
	// Settle is how long there must be no change before the burst is over.
	Settle time.Duration
	// Bound is how long after the first change the burst is over in any case.
	Bound time.Duration

	first, last time.Time
}

// Note records a change at a time. The first one begins the burst.
func (b *Burst) Note(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// Due returns when the burst is over if no further change is recorded. It returns false if no
// change was recorded since End. It is Settle after the last change, but at most Bound after the
// first.
func (b *Burst) Due() (time.Time, bool) {
	if b.first.IsZero() {
		return time.Time{}, false
	}
	quiet, bound := b.last.Add(b.Settle), b.first.Add(b.Bound)
	if bound.Before(quiet) {
		return bound, true
	}
	return quiet, true
}

// End discards the recorded changes.
func (b *Burst) End() { b.first, b.last = time.Time{}, time.Time{} }
