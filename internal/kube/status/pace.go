package status

import "time"

// Pace is how long things may take before they are told of.
type Pace struct {
	// Settle is how long an object may take to come everywhere before its condition says that it is on its way: most take less, and
	// are written once.
	Settle time.Duration
	// Count is how often it is counted who has what is on its way, Slow how often once that takes longer than SlowAfter.
	Count, Slow, SlowAfter time.Duration
	// Tell is how often a condition follows the counts of what is on its way.
	Tell time.Duration
	// Patience is how long the leader waits for a replica to say something of an object. One that does not by then has nothing to
	// say: it is gone, or the object has come everywhere there long ago.
	Patience time.Duration
	// Refresh is how often a replica says anew that something is still on its way. One that has not for three times as long is gone.
	Refresh time.Duration
	// First is how long after its start a replica first says that it is there: one that is alone leads by then, and reports to
	// nobody.
	First time.Duration
	// Retry is how long a write is let be that did not work.
	Retry time.Duration
}

// DefaultPace is for people who look.
func DefaultPace() Pace {
	return Pace{
		Settle: 2 * time.Second, Count: time.Second, Slow: 10 * time.Second, SlowAfter: time.Minute, Tell: 5 * time.Second,
		Patience: 5 * time.Second, Refresh: 5 * time.Second, First: 2 * time.Second, Retry: 5 * time.Second,
	}
}

// lost is how old what a replica said may become before it counts as gone.
func (p Pace) lost() time.Duration { return 3 * p.Refresh }
