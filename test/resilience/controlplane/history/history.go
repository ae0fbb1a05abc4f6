package history

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Operation set an object to a generation. Generations of an object grow.
type Operation struct {
	Object     string
	Generation int
	// At is when the operation was complete.
	At time.Time
}

// An Observation is that a proxy was sent a generation of an object.
type Observation struct {
	Proxy, Object string
	Generation    int
	At            time.Time
}

// A Mixture is a state of a proxy that no single version of the configuration has.
type Mixture struct {
	Proxy, What string
	At          time.Time
}

// Log is the record of a run. Its methods may be called from any goroutine.
type Log struct {
	mu           sync.Mutex
	operations   []Operation
	observations []Observation
	mixtures     []Mixture
	proxies      map[string]bool
}

// Operate records an operation.
func (l *Log) Operate(o Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.operations = append(l.operations, o)
}

// Join records that a proxy takes part from the start: it must see every operation.
func (l *Log) Join(proxy string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proxies == nil {
		l.proxies = map[string]bool{}
	}
	l.proxies[proxy] = true
}

// Observe records an observation.
func (l *Log) Observe(o Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observations = append(l.observations, o)
}

// Mix records a mixed state.
func (l *Log) Mix(m Mixture) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mixtures = append(l.mixtures, m)
}

// Reached reports whether every proxy has observed the last generation of every object.
func (l *Log) Reached() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := map[string]int{}
	for _, o := range l.operations {
		last[o.Object] = max(last[o.Object], o.Generation)
	}
	seen := map[key]int{}
	for _, o := range l.observations {
		k := key{o.Proxy, o.Object}
		seen[k] = max(seen[k], o.Generation)
	}
	for proxy := range l.proxies {
		for object, generation := range last {
			if seen[key{proxy, object}] < generation {
				return fmt.Errorf("%s has seen generation %d of %s, want %d", proxy,
					seen[key{proxy, object}], object, generation)
			}
		}
	}
	return nil
}

type key struct{ proxy, object string }

// A Report is what Check found.
type Report struct {
	Operations, Proxies, Observations int
	// Unseen are operations that a proxy did not see in time, Reordered observations of an older
	// generation than one before, Mixed the mixtures. Each has a text that names proxy and object.
	Unseen, Reordered, Mixed []string
	// Worst is the longest time from an operation until a proxy saw it, among the operations that a
	// proxy saw.
	Worst time.Duration
}

// Failed reports whether anything was found.
func (r Report) Failed() bool { return len(r.Unseen)+len(r.Reordered)+len(r.Mixed) > 0 }

// Check verifies the record: each proxy must see each operation within the bound.
func (l *Log) Check(bound time.Duration) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Operations: len(l.operations), Proxies: len(l.proxies), Observations: len(l.observations)}
	views := map[key][]Observation{}
	for _, o := range l.observations {
		views[key{o.Proxy, o.Object}] = append(views[key{o.Proxy, o.Object}], o)
	}
	for k, list := range views {
		slices.SortStableFunc(list, func(a, b Observation) int { return a.At.Compare(b.At) })
		newest := list[0]
		for _, o := range list[1:] {
			if o.Generation < newest.Generation {
				r.Reordered = append(r.Reordered, fmt.Sprintf("%s was sent generation %d of %s %v after generation %d",
					k.proxy, o.Generation, k.object, o.At.Sub(newest.At), newest.Generation))
				continue
			}
			newest = o
		}
	}
	for _, o := range l.operations {
		for proxy := range l.proxies {
			took, seen := firstView(views[key{proxy, o.Object}], o)
			switch {
			case !seen:
				r.Unseen = append(
					r.Unseen,
					fmt.Sprintf("%s never saw generation %d of %s", proxy, o.Generation, o.Object),
				)
			case took > bound:
				r.Unseen = append(
					r.Unseen,
					fmt.Sprintf("%s saw generation %d of %s after %v", proxy, o.Generation, o.Object, took),
				)
			}
			if seen {
				r.Worst = max(r.Worst, took)
			}
		}
	}
	for _, m := range l.mixtures {
		r.Mixed = append(r.Mixed, fmt.Sprintf("%s at %s: %s", m.Proxy, m.At.Format("15:04:05.000"), m.What))
	}
	slices.Sort(r.Unseen)
	slices.Sort(r.Reordered)
	return r
}

// firstView returns how long after an operation a proxy had its generation or a later one. The list
// is sorted by time.
func firstView(list []Observation, o Operation) (took time.Duration, seen bool) {
	for _, v := range list {
		if v.Generation >= o.Generation {
			return max(0, v.At.Sub(o.At)), true
		}
	}
	return 0, false
}
