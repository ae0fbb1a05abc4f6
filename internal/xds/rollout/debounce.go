package rollout

import "time"

// Debounce decides how long changes are collected before a turn begins.
//
// If After is zero, the first change after a quiet time begins a turn at once. Changes during a
// turn wait for the next one. The pause between two turns is twice the duration of the first turn,
// so that at most about a third of the time is spent on turns. It is bounded, with a lower bound
// for endpoints than for configuration.
type Debounce struct {
	// After, if not zero, is the quiet time before a turn (PILOT_DEBOUNCE_AFTER).
	After time.Duration
	// Max bounds how long changes are held back if After is set (default 10 s; PILOT_DEBOUNCE_MAX).
	Max time.Duration
	// EndpointsAtOnce exempts changes of endpoints alone from After
	// (PILOT_ENABLE_EDS_DEBOUNCE=false).
	EndpointsAtOnce bool
}

const (
	defaultMax = 10 * time.Second

	// Bounds of the pause between turns if Debounce.After is zero.
	minPause          = 2 * time.Millisecond
	maxEndpointsPause = 100 * time.Millisecond
	maxConfigPause    = 500 * time.Millisecond
	pauseShare        = 2

	// costPerProxy is the CPU time of one small response and its ACK on grpc-go. Writing goes on
	// after a turn.
	costPerProxy = 25 * time.Microsecond
)

// gathering describes the changes that wait for a turn.
type gathering struct {
	first, last   time.Time // when they were published
	endpointsOnly bool
}

// lastTurn is the input for the pause before the next turn.
type lastTurn struct {
	ended   time.Time
	took    time.Duration
	proxies int // that were offered a new ResourceSnapshot
}

// dueTime returns when the turn for the changes may begin; the time may have passed. With a quiet
// period (After), that is After the last change, but at most Max since the first (default 10 s, at
// least After). Otherwise, and for endpoints alone with EndpointsAtOnce, it is a pause after the
// end of the last turn. The pause is pauseShare times the sum of that turn's duration and
// costPerProxy for each of its proxies. It is at least minPause, and at most maxConfigPause, or
// maxEndpointsPause for endpoints alone.
func (d Debounce) dueTime(g gathering, t lastTurn) time.Time {
	if d.After > 0 && !(g.endpointsOnly && d.EndpointsAtOnce) {
		longest := d.Max
		if longest <= 0 {
			longest = defaultMax
		}
		return earlier(g.last.Add(d.After), g.first.Add(max(longest, d.After)))
	}
	longest := maxConfigPause
	if g.endpointsOnly {
		longest = maxEndpointsPause
	}
	pause := pauseShare * (t.took + time.Duration(t.proxies)*costPerProxy)
	return t.ended.Add(min(max(pause, minPause), longest))
}

// earlier returns the earlier of two times. A zero time is later than any other; of two zero times
// the result is zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
