package webhook

import (
	queue "container/list"
	"sync"
)

// bodyBudget bounds the bytes of all requests that are being read or wait for a worker. When it is
// exhausted, the oldest request is canceled: reviews of the API server arrive in milliseconds, so
// this affects clients that send slowly.
type bodyBudget struct {
	limit int64

	mu      sync.Mutex
	held    int64
	pending queue.List // of *bodyReservation, the oldest first
}

// bodyReservation is the share of one request.
type bodyReservation struct {
	budget *bodyBudget
	// cancel aborts the reading of the request. It is called at most once, from another goroutine.
	cancel func()

	// budget.mu guards the following fields.
	held    int64
	element *queue.Element // nil once the request cannot be canceled
	evicted bool
}

// newBodyBudget returns a budget of limit bytes for all requests together.
func newBodyBudget(limit int64) *bodyBudget { return &bodyBudget{limit: limit} }

// reserve adds a request without bytes. cancel is called, with the budget locked, if the request is
// canceled in favor of another. The caller must call close on the result.
func (b *bodyBudget) reserve(cancel func()) *bodyReservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &bodyReservation{budget: b, cancel: cancel}
	r.element = b.pending.PushBack(r)
	return r
}

// grow reserves n more bytes, and cancels older requests, the oldest first, if necessary. It
// returns false, and reserves nothing, if this request was canceled, or if the bytes do not fit
// after all older requests were canceled. The budget's lock must not be held.
func (r *bodyReservation) grow(n int64) bool {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	if r.evicted {
		return false
	}
	for r.budget.held+n > r.budget.limit {
		oldest := r.budget.pending.Front()
		if oldest == nil || oldest == r.element {
			return false
		}
		oldest.Value.(*bodyReservation).evict() //nolint:forcetypeassert // the list holds nothing else
	}
	r.budget.held += n
	r.held += n
	return true
}

// evict cancels the request and releases its bytes. budget.mu must be held.
func (r *bodyReservation) evict() {
	r.evicted = true
	r.release()
	r.cancel()
}

// wasEvicted reports whether the request was canceled in favor of another.
func (r *bodyReservation) wasEvicted() bool {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.evicted
}

// markStarted makes the request safe from cancellation, because a worker processes it now. It
// returns false if the request was canceled before.
func (r *bodyReservation) markStarted() bool {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	if r.element != nil {
		r.budget.pending.Remove(r.element)
		r.element = nil
	}
	return !r.evicted
}

// close releases the request's bytes. It may be called after the request was canceled, and more
// than once.
func (r *bodyReservation) close() {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.release()
}

// release returns the request's bytes to the budget and removes it from the pending ones. budget.mu
// must be held.
func (r *bodyReservation) release() {
	if r.element != nil {
		r.budget.pending.Remove(r.element)
		r.element = nil
	}
	r.budget.held -= r.held
	r.held = 0
}
