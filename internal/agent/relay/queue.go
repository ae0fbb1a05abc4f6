package relay

import (
	"fmt"
	"slices"
	"sync"
)

const (
	// maxWaiting is how many requests of a type may wait before they are joined.
	maxWaiting = 16
	// maxTypes bounds the types of requests that wait. Envoy knows some ten.
	maxTypes = 64
)

// request is a message for the control plane.
type request struct {
	typeURL string
	body    frame
}

// queue has the requests that wait for the control plane to read them, in their order. Where it is slow they are joined, type
// by type, so that the queue does not grow with time.
type queue struct {
	form form

	mu      sync.Mutex
	list    []request
	waiting map[string]int
	ready   chan struct{} // holds something while the list does
}

func newQueue(f form) *queue {
	return &queue{form: f, waiting: map[string]int{}, ready: make(chan struct{}, 1)}
}

// push adds a request. It never waits.
func (q *queue) push(r request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[r.typeURL] >= maxWaiting {
		return q.join(r)
	}
	if _, known := q.waiting[r.typeURL]; !known && len(q.waiting) >= maxTypes {
		return fmt.Errorf("requests of more than %d types", maxTypes)
	}
	q.list = append(q.list, r)
	q.waiting[r.typeURL]++
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

// join makes one request of the last that waits and a newer one.
func (q *queue) join(r request) error {
	for i, waits := range slices.Backward(q.list) {
		if waits.typeURL == r.typeURL {
			both, err := q.form.join(waits.body, r.body)
			q.list[i].body = both
			return err
		}
	}
	panic("relay: the queue has lost count") // there were maxWaiting
}

// pop gives the first request, false if there is none.
func (q *queue) pop() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return request{}, false
	}
	r := q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	if q.waiting[r.typeURL]--; q.waiting[r.typeURL] == 0 {
		delete(q.waiting, r.typeURL)
	}
	return r, true
}
