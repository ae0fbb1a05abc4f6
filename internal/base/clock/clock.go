// Package clock has the time as a parameter, so that tests can control it.
//
// A component that waits has a field or option of type [Clock], which is [System] outside of tests.
// A component that only reads the time takes a func() time.Time instead.
package clock

import "time"

// Clock provides the time and timers. It is safe for concurrent use.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time once, after d. It receives at once if d is not
	// positive.
	After(d time.Duration) <-chan time.Time
}

// System is the Clock of the system.
type System struct{}

var _ Clock = System{}

// Now returns time.Now().
func (System) Now() time.Time { return time.Now() }

// After returns time.After(d).
func (System) After(d time.Duration) <-chan time.Time { return time.After(d) }
