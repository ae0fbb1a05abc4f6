package watch

import "time"

// Burst says when a burst of changes is over, so that a file is read after its last write and not in between. The zero
// Burst is over and waits for nothing.
type Burst struct {
	// Settle is how long it must be quiet after the last change.
	Settle time.Duration
	// Bound is how long after the first change the burst counts as over, quiet or not.
	Bound time.Duration

	first, last time.Time
}

// Note notes a change.
func (b *Burst) Note(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// Due gives the time when the burst is over; false if there was no change since End.
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

// End forgets the changes noted so far.
func (b *Burst) End() { b.first, b.last = time.Time{}, time.Time{} }
