package relay

import (
	"fmt"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

const (
	// maxQueued is how many requests of a type are queued before further ones are merged.
	maxQueued = 16
	// maxTypes bounds the number of types in the queue. Envoy uses about ten.
	maxTypes = 64
)

// request is a message to the control plane.
type request struct {
	typeURL string
	body    frame
}

// queue holds requests to the control plane in their order. If the control plane is slow to read,
// requests are merged by type, so that the queue stays bounded.
type queue struct {
	protocol protocol

	mu     sync.Mutex
	list   []request
	counts map[string]int
	ready  notify.Wake // wakes sendRequests after push
}

// newQueue returns an empty queue for requests of the protocol f.
func newQueue(f protocol) *queue {
	return &queue{protocol: f, counts: map[string]int{}, ready: notify.NewWake()}
}

// push appends a request, or merges it into the last one of its type if maxQueued of the type are
// queued. It never blocks. It fails if merging fails, or if the queue has maxTypes other types and
// none of this one.
func (q *queue) push(r request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[r.typeURL] >= maxQueued {
		return q.mergeIntoLast(r)
	}
	if _, known := q.counts[r.typeURL]; !known && len(q.counts) >= maxTypes {
		return fmt.Errorf("requests of more than %d resource types pending", maxTypes)
	}
	q.list = append(q.list, r)
	q.counts[r.typeURL]++
	q.ready.Notify()
	return nil
}

// mergeIntoLast merges a request into the last queued one of its type, and panics if there is none.
// It returns an error if either request is malformed. q.mu must be held.
func (q *queue) mergeIntoLast(r request) error {
	for i, waits := range slices.Backward(q.list) {
		if waits.typeURL == r.typeURL {
			both, err := q.protocol.mergeRequests(waits.body, r.body)
			q.list[i].body = both
			return err
		}
	}
	panic("relay: queue counts are inconsistent") // cannot happen: there were maxQueued
}

// pop removes and returns the first request. It returns false if there is none.
func (q *queue) pop() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return request{}, false
	}
	r := q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	if q.counts[r.typeURL]--; q.counts[r.typeURL] == 0 {
		delete(q.counts, r.typeURL)
	}
	return r, true
}
