package webhook

import (
	queue "container/list"
	"sync"
)

// bodyBudget bounds the bytes of all requests that are being read or wait for a worker. When it is exhausted, the request that has been
// there for the longest is cancelled: reviews arrive in milliseconds, and clients that send slowly have only themselves to harm.
type bodyBudget struct {
	limit int64

	mu      sync.Mutex
	held    int64
	pending queue.List // of *body, the oldest first
}

// body is the share of one request.
type body struct {
	b *bodyBudget
	// cancel ends the reading of the request. It is called at most once, by another goroutine.
	cancel func()

	// b.mu guards what follows.
	held    int64
	place   *queue.Element // nil: it cannot be cancelled any more
	evicted bool
}

func newBodyBudget(limit int64) *bodyBudget { return &bodyBudget{limit: limit} }

// open adds a request that holds nothing yet. Its close must be called.
func (b *bodyBudget) open(cancel func()) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &body{b: b, cancel: cancel}
	r.place = b.pending.PushBack(r)
	return r
}

// grow reserves n more bytes, for which it cancels older requests if need be. It reports false if this request was cancelled itself,
// or if there is no room and nothing to cancel.
func (r *body) grow(n int64) bool {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.evicted {
		return false
	}
	for r.b.held+n > r.b.limit {
		oldest := r.b.pending.Front()
		if oldest == nil || oldest == r.place {
			return false
		}
		oldest.Value.(*body).evict() //nolint:forcetypeassert // the list holds nothing else
	}
	r.b.held += n
	r.held += n
	return true
}

// evict cancels the request and releases its bytes. b.mu is held.
func (r *body) evict() {
	r.evicted = true
	r.release()
	r.cancel()
}

// start reports that the request is being worked on: it is not cancelled any more. It reports false if it has been.
func (r *body) start() bool {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.place != nil {
		r.b.pending.Remove(r.place)
		r.place = nil
	}
	return !r.evicted
}

// close releases the request's bytes.
func (r *body) close() {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.release()
}

func (r *body) release() {
	if r.place != nil {
		r.b.pending.Remove(r.place)
		r.place = nil
	}
	r.b.held -= r.held
	r.held = 0
}
