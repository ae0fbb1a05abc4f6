package ingest

import "time"

// TimedConverter is a Converter whose result also depends on time.
type TimedConverter interface {
	// NextChange returns the earliest time after which its result differs although no event
	// arrives, or the zero time if there is none. The result is then that of Convert, also for an
	// empty batch.
	NextChange() time.Time
}

// longestWait limits how long the pipeline waits for a change at a certain time. Clocks may be set
// while it waits, and timers do not notice that.
const longestWait = time.Hour

// nextWake returns a channel that receives a value when a converter has to convert again without an
// event, after longestWait at the latest. It returns nil if no converter has to. A time that has
// passed is received within a millisecond.
func (p *pipeline) nextWake() <-chan time.Time {
	var next time.Time
	for _, c := range p.Converters {
		timed, ok := c.(TimedConverter)
		if !ok {
			continue
		}
		if at := timed.NextChange(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return nil
	}
	// A change is due after this time, not at it.
	return p.Clock.After(min(max(next.Sub(p.Clock.Now()), 0)+time.Millisecond, longestWait))
}
