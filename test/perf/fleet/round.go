package fleet

import (
	"sync"
	"sync/atomic"
	"time"
)

// Round disconnects and connects some proxies together. It measures how long each takes from the
// start until it has all types with all names that it requested.
type Round struct {
	// Done is closed when all of them are in sync.
	Done chan struct{}

	f         *Fleet
	proxies   []int
	fresh     bool
	gate      chan struct{}
	away      sync.WaitGroup
	began     atomic.Int64
	synced    map[int]*atomic.Int64 // by proxy: nanoseconds after the start
	remaining atomic.Int64
}

// DisconnectProxies closes the connections of the connected proxies among the given ones, and
// returns when they have ended. Start connects them again: fresh, like new pods, or with all their
// resources, like proxies that lost their control plane.
func (f *Fleet) DisconnectProxies(proxies []int, fresh bool) *Round {
	r := &Round{
		Done: make(
			chan struct{},
		),
		f:       f,
		proxies: proxies,
		fresh:   fresh,
		gate:    make(chan struct{}),
		synced:  map[int]*atomic.Int64{},
	}
	r.remaining.Store(int64(len(proxies)))
	r.away.Add(len(proxies))
	for _, i := range proxies {
		r.synced[i] = new(atomic.Int64)
	}
	for _, i := range proxies {
		f.proxies[i].absent.Store(true)
		f.proxies[i].joinRound(r)
	}
	r.away.Wait()
	return r
}

// ReplaceNode assigns another node to the proxy of a round of one: it connects as another pod.
func (r *Round) ReplaceNode(node []byte) {
	p := r.f.proxies[r.proxies[0]]
	p.state.Lock()
	p.node = node
	p.state.Unlock()
}

// Start brings the proxies in, all at once.
func (r *Round) Start() *Round {
	for _, i := range r.proxies {
		r.f.proxies[i].absent.Store(false)
	}
	r.began.Store(time.Now().UnixNano())
	close(r.gate)
	return r
}

// recordArrival notes that a proxy is in sync.
func (r *Round) recordArrival(proxy int, now time.Time) {
	if r.synced[proxy].CompareAndSwap(0, max(1, now.UnixNano()-r.began.Load())) && r.remaining.Add(-1) == 0 {
		close(r.Done)
	}
}

// Arrivals returns when each proxy was in sync, and how many are not.
func (r *Round) Arrivals() (list []Arrival, missing int) {
	for _, i := range r.proxies {
		if at := r.synced[i].Load(); at > 0 {
			list = append(list, Arrival{i, time.Duration(at)})
		} else {
			missing++
		}
	}
	return list, missing
}
