package push

import "time"

// Clock returns the time and waits.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the real Clock.
type SystemClock struct{}

var _ Clock = SystemClock{}

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// After returns the channel of time.After.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
