package fleet

import (
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// counters count received messages, by type; the last element is for other types.
type counters struct {
	messages, bytes, resources, removed [wire.NumTypes + 1]atomic.Int64
	last                                atomic.Int64 // when, in nanoseconds since 1970
	reconnects                          atomic.Int64
}

// Traffic counts the data of one type that a control plane sent.
type Traffic struct {
	Messages  int64 `json:"messages"`
	Bytes     int64 `json:"bytes"`
	Resources int64 `json:"resources"`
	Removed   int64 `json:"removed"`
}

// Stats counts the messages to the whole fleet since the start. The last element of Traffic is for
// other types.
type Stats struct {
	Traffic [wire.NumTypes + 1]Traffic
	// Reconnects are the streams that the control plane refused or ended.
	Reconnects int64
	// Last is when the newest message arrived.
	Last time.Time
}

// Stats returns the counts.
func (f *Fleet) Stats() Stats {
	var s Stats
	for t := range s.Traffic {
		s.Traffic[t] = Traffic{
			Messages: f.count.messages[t].Load(), Bytes: f.count.bytes[t].Load(),
			Resources: f.count.resources[t].Load(), Removed: f.count.removed[t].Load(),
		}
	}
	s.Reconnects, s.Last = f.count.reconnects.Load(), time.Unix(0, f.count.last.Load())
	return s
}

// MessagesReceived returns how many messages each proxy got since the start.
func (f *Fleet) MessagesReceived() []int64 {
	list := make([]int64, len(f.proxies))
	for i, p := range f.proxies {
		list[i] = p.heard.Load()
	}
	return list
}

// InvalidResources are the invalid resources in the sample that was decoded in full.
func (f *Fleet) InvalidResources() []string {
	f.library.mu.RLock()
	defer f.library.mu.RUnlock()
	return append([]string(nil), f.library.faults...)
}

// StreamEndReasons are the different reasons for which the control plane ended streams, with their number.
// Only the first few reasons are counted separately.
func (f *Fleet) StreamEndReasons() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[string]int, len(f.endings))
	for k, v := range f.endings {
		m[k] = v
	}
	return m
}

// SubscribedNames returns the number of names of EDS and RDS to which a proxy subscribes.
func (f *Fleet) SubscribedNames(i int) (eds, rds int) {
	p := f.proxies[i]
	p.state.Lock()
	defer p.state.Unlock()
	return p.wanted[wire.EDS].len(), p.wanted[wire.RDS].len()
}
