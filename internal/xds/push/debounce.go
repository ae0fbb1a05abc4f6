package push

import "time"

// Debounce is how changes are gathered into turns.
//
// With After zero the first change after quiet goes out at once. What comes while a turn is under way goes with the next,
// which begins no sooner than a pause of twice what the last one took, so that pushing uses at most about a third of the time,
// and no later than a bound that is shorter for endpoints.
type Debounce struct {
	// After, if not zero, is how long it must be quiet before a turn (PILOT_DEBOUNCE_AFTER), and Max for how long changes
	// may be held back at most (PILOT_DEBOUNCE_MAX, 10 s if zero).
	After, Max time.Duration
	// EndpointsAtOnce exempts changes of endpoints alone from After (PILOT_ENABLE_EDS_DEBOUNCE=false).
	EndpointsAtOnce bool
}

// The bounds of the pause between turns where After is zero, and what writing to one proxy costs, which goes on after a
// turn: about the CPU time of one small response and its ACK on grpc-go.
const (
	minPause          = 2 * time.Millisecond
	maxEndpointsPause = 100 * time.Millisecond
	maxConfigPause    = 500 * time.Millisecond
	costPerProxy      = 25 * time.Microsecond
	pauseShare        = 2
)

// gathering is changes that wait for a turn.
type gathering struct {
	first, last   time.Time // when they came
	endpointsOnly bool
}

// lastTurn is what the pause before the next turn depends on.
type lastTurn struct {
	ended   time.Time
	took    time.Duration
	proxies int // that got a new World
}

// due gives when the turn for the changes may begin.
func (d Debounce) due(g gathering, t lastTurn) time.Time {
	if d.After > 0 && !(g.endpointsOnly && d.EndpointsAtOnce) {
		most := d.Max
		if most <= 0 {
			most = 10 * time.Second
		}
		return earlier(g.last.Add(d.After), g.first.Add(max(most, d.After)))
	}
	longest := maxConfigPause
	if g.endpointsOnly {
		longest = maxEndpointsPause
	}
	pause := pauseShare * (t.took + time.Duration(t.proxies)*costPerProxy)
	return t.ended.Add(min(max(pause, minPause), longest))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
