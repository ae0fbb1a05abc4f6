package watch

import "time"

// Clock provides the time and timers.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time once, after d.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the Clock of the system.
type SystemClock struct{}

var _ Clock = SystemClock{}

// Now returns time.Now().
func (SystemClock) Now() time.Time { return time.Now() }

// After returns time.After(d).
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
