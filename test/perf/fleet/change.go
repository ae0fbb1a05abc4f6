package fleet

import (
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Change is a configuration change that is being distributed to the proxies.
type Change struct {
	// Done is closed when every affected proxy has it.
	Done chan struct{}

	overtakes *Change // the one before to the same target
	began     atomic.Int64
	arrivals  [wire.NumTypes][]int64 // by type and proxy: nanoseconds after the beginning; 0: not yet, -1: not for it
	remaining atomic.Int64
}

// Expect prepares for a change, before it is made. overtakes is the one made before to the same
// target, whose mark the new one may replace before all proxies have seen it; sees selects the
// affected proxies.
func (f *Fleet) Expect(m workload.Mark, overtakes *Change, sees func(proxy int) bool) *Change {
	c := &Change{Done: make(chan struct{}), overtakes: overtakes}
	types, n := m.Change.Types(), 0
	for _, t := range types {
		c.arrivals[t] = make([]int64, len(f.proxies))
	}
	for i := range f.proxies {
		if f.proxies[i].absent.Load() || !sees(i) {
			for _, t := range types {
				c.arrivals[t][i] = -1
			}
			continue
		}
		n++
	}
	c.remaining.Store(int64(n * len(types)))
	if n == 0 {
		close(c.Done)
	}
	f.changesMu.Lock()
	f.changes[m] = c
	f.changesMu.Unlock()
	return c
}

// IsDone reports whether every affected proxy has the change.
func (c *Change) IsDone() bool {
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// Forget releases the state of a change. Its mark can be used again.
func (f *Fleet) Forget(m workload.Mark) {
	f.changesMu.Lock()
	defer f.changesMu.Unlock()
	delete(f.changes, m)
}

// Begin starts the clock of a change.
func (c *Change) Begin() { c.began.Store(time.Now().UnixNano()) }

// recordArrival records that a proxy received a mark. Only the goroutine of that proxy calls it.
func (f *Fleet) recordArrival(proxy int, t wire.Type, m workload.Mark, now time.Time) {
	f.changesMu.RLock()
	c := f.changes[m]
	f.changesMu.RUnlock()
	for ; c != nil; c = c.overtakes {
		if c.arrivals[t] == nil || atomic.LoadInt64(&c.arrivals[t][proxy]) != 0 {
			return
		}
		atomic.StoreInt64(&c.arrivals[t][proxy], max(1, now.UnixNano()-c.began.Load()))
		if c.remaining.Add(-1) == 0 {
			close(c.Done)
		}
	}
}

// Arrival is when a proxy had a change.
type Arrival struct {
	Proxy int
	After time.Duration
}

// Arrivals returns when each proxy had all of the change, and how many affected proxies lack it.
func (c *Change) Arrivals() (list []Arrival, missing int) {
	n := 0
	for t := range c.arrivals {
		n = max(n, len(c.arrivals[t]))
	}
proxies:
	for i := range n {
		var last int64
		for t := range c.arrivals {
			if c.arrivals[t] == nil {
				continue
			}
			switch at := atomic.LoadInt64(&c.arrivals[t][i]); {
			case at < 0:
				continue proxies
			case at == 0:
				missing++
				continue proxies
			default:
				last = max(last, at)
			}
		}
		list = append(list, Arrival{i, time.Duration(last)})
	}
	return list, missing
}
