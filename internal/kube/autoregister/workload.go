package autoregister

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// workload is a workload that is or recently was connected to this replica. Its goroutine
// reconciles its WorkloadEntry.
type workload struct {
	r               *Registrar
	namespace, name string

	wake notify.Wake // wakes run

	mu sync.Mutex
	// streams are the open streams of the proxy: two while one replaces the other.
	streams        map[*Connection]struct{}
	proxy          *mesh.Proxy // of the newest stream
	since          time.Time   // start of the newest stream
	disconnectedAt time.Time   // end of the last stream; zero while one is open
	health         *Health     // last reported health

	// claimedSince is the start of the connection for which this replica last claimed the entry.
	// claimTime is the time written with that claim, which is later than all times in the entry
	// because clocks of replicas differ. Only the workload's goroutine uses them.
	claimedSince, claimTime time.Time
}

// desired is the state that a workload's entry should have.
type desired struct {
	proxy          *mesh.Proxy
	since          time.Time
	disconnectedAt time.Time
	health         *Health
}

// isAutoRegistered reports whether this package creates and deletes the entry. Otherwise a user
// created it.
func (w desired) isAutoRegistered() bool { return w.proxy.Metadata.AutoRegisterGroup != "" }

// desiredState returns a copy of what the entry must reflect now.
func (w *workload) desiredState() desired {
	w.mu.Lock()
	defer w.mu.Unlock()
	return desired{w.proxy, w.since, w.disconnectedAt, w.health}
}

const (
	// minRetryDelay and maxRetryDelay bound the backoff after failures.
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// run reconciles the entry after each change, until ctx ends, or the workload has disconnected and
// its entry is cleaned up. Conflicts are retried at once; other failures are counted, logged and
// retried with a backoff. A refusal (RegistrationError) is reported to the streams and not retried.
// At last it reports success to streams that still wait.
func (w *workload) run(ctx context.Context) {
	defer w.reportResult(nil)
	backoff := retry.NewBackoff(minRetryDelay, maxRetryDelay)
	for ctx.Err() == nil {
		want := w.desiredState()
		again, err := w.reconcile(ctx, want)
		var refused *RegistrationError
		switch {
		case errors.As(err, &refused), err == nil, errors.Is(err, ErrConflict):
			backoff.Reset()
			if errors.Is(err, ErrConflict) {
				again = time.Millisecond
			}
		default:
			again = backoff.NextBackOff()
			if ctx.Err() == nil {
				w.r.metrics.EntryError()
				w.r.log.Warn(
					"updating a WorkloadEntry failed, retrying",
					"namespace", w.namespace,
					"name", w.name,
					"error", err,
				)
			}
		}
		w.reportResult(refused, want)
		if err == nil && again == 0 && w.removeIfDone(want) {
			return
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = w.r.clock.After(again)
		}
		select {
		case <-ctx.Done():
		case <-w.wake.C():
		case <-timer:
		}
	}
}

// reportResult passes the result of a registration attempt to the streams that wait for it; nil
// means success. Streams that are newer than the attempt (tried), or have a result, are skipped.
// Without tried, all streams that wait get it. w.mu must not be held.
func (w *workload) reportResult(refused *RegistrationError, tried ...desired) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.streams {
		if c.reported || len(tried) > 0 && c.since.After(tried[0].since) {
			continue
		}
		c.reported, c.registrationError = true, refused
		close(c.registered)
	}
}

// removeIfDone removes a workload from the Registrar if it is disconnected in the state done and
// has not reconnected since. It reports whether it did. Neither r.mu nor w.mu may be held.
func (w *workload) removeIfDone(done desired) bool {
	if done.disconnectedAt.IsZero() {
		return false
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.streams) > 0 || !w.disconnectedAt.Equal(done.disconnectedAt) {
		return false
	}
	delete(w.r.workloads, w.key())
	return true
}

func (w *workload) key() entryKey { return entryKey{w.namespace, w.name} }

// reconcile reads the entry and performs the next step for it. It returns the time until the next
// step, or 0 if there is none. An error of the read or the step is returned as it is.
func (w *workload) reconcile(ctx context.Context, want desired) (again time.Duration, err error) {
	e, err := w.r.store.Get(ctx, w.namespace, w.name)
	if err != nil {
		return 0, err
	}
	if want.disconnectedAt.IsZero() {
		return 0, w.reconcileConnected(ctx, want, e)
	}
	return w.reconcileDisconnected(ctx, want, e)
}

// reconcileConnected creates or claims the entry of a connected workload. If it has the claim
// already, it writes a health that differs, if health checks are enabled and the entry has one. It
// returns a RegistrationError if the entry or group does not exist, or the proxy's identity does
// not match. It writes nothing for a user's entry without a health check, or if the proxy has moved
// to another replica.
func (w *workload) reconcileConnected(ctx context.Context, want desired, e *Entry) error {
	r := w.r
	switch {
	case e == nil && !want.isAutoRegistered():
		return &RegistrationError{
			Reason: fmt.Sprintf("WorkloadEntry %q, which the proxy names, does not exist in namespace %q",
				w.name, w.namespace),
		}
	case e == nil:
		return w.createEntry(ctx, want)
	case !want.isAutoRegistered() && !e.hasHealthCheck():
		return nil // a user's entry without health check: nothing to write
	}
	if err := r.checkIdentity(want.proxy, w.namespace, e.Spec.GetServiceAccount()); err != nil {
		return err
	}
	since, left := e.annotationTime(connectedAnnotation), e.Annotations[disconnectedAnnotation] != ""
	switch {
	// another replica's record does not cover this connection
	case !w.claimedSince.Equal(want.since), left:
		return w.claimEntry(ctx, want, e)
	case since.After(w.claimTime): // the proxy has moved to another replica
		return nil
	case e.Annotations[controllerAnnotation] != r.instance || !since.Equal(w.claimTime):
		return w.claimEntry(ctx, want, e)
	}
	if want.health == nil || !r.healthChecks || !e.hasHealthCheck() {
		return nil
	}
	if list, differs := want.health.mergeInto(e.Conditions); differs {
		return r.store.SetConditions(ctx, e, list)
	}
	return nil
}

// claimEntry annotates the entry as connected to this replica since want.since, or just after the
// last recorded time if that is later. It records the claim in w and wakes the workload to write
// its health. If the store fails, for instance with ErrConflict, it returns the error and records
// nothing.
func (w *workload) claimEntry(ctx context.Context, want desired, e *Entry) error {
	claim := want.since
	for _, last := range []time.Time{e.annotationTime(connectedAnnotation), e.annotationTime(disconnectedAnnotation)} {
		if !last.Before(claim) {
			claim = last.Add(time.Nanosecond)
		}
	}
	if err := w.r.store.Annotate(ctx, e, connectedAnnotations(w.r.instance, claim)); err != nil {
		return err
	}
	w.claimedSince, w.claimTime = want.since, claim
	w.r.metrics.EntryUpdated()
	w.wake.Notify() // the health is written at the next version
	return nil
}

// createEntry creates the entry from its WorkloadGroup, claimed by this replica, and wakes the
// workload to write its health. It returns a RegistrationError if there is no such group or the
// proxy's identity does not match. Other errors are the store's, such as ErrConflict if the entry
// exists.
func (w *workload) createEntry(ctx context.Context, want desired) error {
	r := w.r
	name := want.proxy.Metadata.AutoRegisterGroup
	group := r.group(w.namespace, name)
	if group == nil {
		return &RegistrationError{
			Reason: fmt.Sprintf("WorkloadGroup %q does not exist in namespace %q", name, w.namespace),
		}
	}
	e := newEntry(w.name, want.proxy, group)
	if err := r.checkIdentity(want.proxy, w.namespace, e.Spec.GetServiceAccount()); err != nil {
		return err
	}
	e.Annotations = mergeMaps(
		e.Annotations,
		map[string]string{controllerAnnotation: r.instance, connectedAnnotation: formatTime(want.since)},
	)
	if err := r.store.Create(ctx, e); err != nil {
		return err
	}
	w.claimedSince, w.claimTime = want.since, want.since
	r.metrics.EntryRegistered()
	r.log.Info("registered a workload", "namespace", w.namespace, "name", w.name, "group", name)
	w.wake.Notify() // write the health next
	return nil
}

// reconcileDisconnected annotates the entry as disconnected. After the grace period it deletes the
// entry, or only the health condition if a user created the entry. It does nothing if the entry is
// gone or another replica has claimed it. again is the rest of the grace period, or 0 if there is
// no next step.
func (w *workload) reconcileDisconnected(ctx context.Context, want desired, e *Entry) (again time.Duration, err error) {
	r := w.r
	if e == nil || e.Annotations[controllerAnnotation] != r.instance ||
		e.annotationTime(connectedAnnotation).After(w.claimTime) {
		return 0, nil
	}
	if !e.annotationTime(disconnectedAnnotation).Equal(want.disconnectedAt) {
		if err := r.store.Annotate(ctx, e, disconnectedAnnotations(want.disconnectedAt)); err != nil {
			return 0, err
		}
		r.metrics.EntryUnregistered()
	}
	if left := want.disconnectedAt.Add(r.grace).Sub(r.clock.Now()); left > 0 {
		return left, nil
	}
	return 0, r.cleanUp(ctx, e)
}
