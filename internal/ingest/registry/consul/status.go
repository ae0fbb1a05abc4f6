package consul

import (
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Status returns the state of reading Consul, with the numbers of services and instances in use.
// Before the first result it is zero. It may be called by any goroutine.
func (s *Source) Status() adapter.Status {
	if status := s.status.Load(); status != nil {
		return *status
	}
	return adapter.Status{}
}

// Waiting returns the error of reading Consul, or "" if it can be read. It may be called by any
// goroutine.
func (s *Source) Waiting() string { return s.Status().Error }

// updateStatus publishes the state after a result, and counts failures. Consul is unreadable while
// the list of services or the list of servers cannot be read, or not everything has answered once.
// Each service that cannot be read or has held instances is a problem. If r.changed is set, it
// records the time of the change and resets r.changed.
func (r *run) updateStatus(x *result) {
	next, now := r.Status(), time.Now()
	if x.err != nil {
		next.Failures++
	}
	next.Error = r.failures[""]
	if next.Error == "" {
		next.Error = r.failures[serverService]
	}
	switch {
	case next.Error != "" || !r.synced:
		next.Synced = false
		if next.Unreadable.IsZero() {
			next.Unreadable = now
		}
	case !next.Synced:
		next.Synced, next.LastSync, next.Unreadable = true, now, time.Time{}
	}
	if r.changed {
		r.changed, next.LastChange = false, now
	}
	next.Services, next.Instances, next.Held = r.inUse, r.instances, r.held
	next.Problems = len(r.failures) + r.heldServices
	r.status.Store(&next)
}

// countService updates the numbers in use, and the metric of held instances. The number of a
// service's instances has changed from before to now, and the number of held ones from heldBefore
// to held.
func (r *run) countService(before, now, heldBefore, held int) {
	r.instances += now - before
	r.held += held - heldBefore
	r.metrics.Held.Add(float64(held - heldBefore))
	r.inUse += sign(now) - sign(before)
	r.heldServices += sign(held) - sign(heldBefore)
}

// countFailures adds the change of the number of failing queries to the metric, which all sources
// share.
func (r *run) countFailures() {
	r.metrics.Failing.Add(float64(len(r.failures) - r.failing))
	r.failing = len(r.failures)
}

// sign returns 1 if n is positive, and 0 otherwise. n must not be negative.
func sign(n int) int { return min(n, 1) }
