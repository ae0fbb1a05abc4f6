package autoregister

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// workload is one that is, or was of late, connected to this replica. Its goroutine brings its entry to where it should be.
type workload struct {
	r               *Registrar
	namespace, name string

	wake chan struct{} // holds one token

	mu sync.Mutex
	// streams are those of the proxy that are open: two, while one of them is being replaced.
	streams map[*Connection]struct{}
	proxy   *mesh.Proxy // of the newest
	since   time.Time   // when the newest came
	gone    time.Time   // when the last one went; zero while there is one
	health  *Health     // the newest that was said

	// claimed is the connection for which the entry was last said to be of this replica, claim the time that it was given: a later
	// one than any in the entry, for the clocks of replicas differ. Only the goroutine has to do with them.
	claimed, claim time.Time
}

// wanted is what a workload's entry is to say.
type wanted struct {
	proxy  *mesh.Proxy
	since  time.Time
	gone   time.Time
	health *Health
}

// auto says that the entry is made here, and goes with the workload. Otherwise somebody else has made it.
func (w wanted) auto() bool { return w.proxy.Metadata.AutoRegisterGroup != "" }

func (w *workload) wanted() wanted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return wanted{w.proxy, w.since, w.gone, w.health}
}

func (w *workload) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

const (
	// firstRetry and maxRetry are how long is waited after a try that failed, twice as long each time.
	firstRetry = 500 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// run works until the workload is gone and nothing is left to do for it.
func (w *workload) run(ctx context.Context) {
	defer w.tell(nil)
	retry := firstRetry
	for ctx.Err() == nil {
		want := w.wanted()
		again, err := w.reconcile(ctx, want)
		var refused *Refusal
		switch {
		case errors.As(err, &refused), err == nil, errors.Is(err, ErrConflict):
			retry = firstRetry
			if errors.Is(err, ErrConflict) {
				again = time.Millisecond
			}
		default:
			again, retry = retry, min(2*retry, maxRetry)
			if ctx.Err() == nil {
				w.r.metrics.Error()
				w.r.log.Warn("a WorkloadEntry is not as it should be", "namespace", w.namespace, "name", w.name, "error", err)
			}
		}
		w.tell(refused, want)
		if err == nil && again == 0 && w.end(want) {
			return
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = w.r.after(again)
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer:
		}
	}
}

// tell tells the streams what came of a try that was for them: nil if they are not refused.
func (w *workload) tell(refused *Refusal, tried ...wanted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.streams {
		if c.told || len(tried) > 0 && c.since.After(tried[0].since) {
			continue
		}
		c.told, c.refused = true, refused
		close(c.tried)
	}
}

// end says whether nothing is left to do for a workload that is gone.
func (w *workload) end(done wanted) bool {
	if done.gone.IsZero() {
		return false
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.streams) > 0 || !w.gone.Equal(done.gone) {
		return false
	}
	delete(w.r.workloads, w.key())
	return true
}

func (w *workload) key() entryKey { return entryKey{w.namespace, w.name} }

// reconcile does the next step that is to do for an entry. It gives how long to wait for the one after; 0: there is none.
func (w *workload) reconcile(ctx context.Context, want wanted) (again time.Duration, err error) {
	e, err := w.r.store.Get(ctx, w.namespace, w.name)
	if err != nil {
		return 0, err
	}
	if want.gone.IsZero() {
		return 0, w.connected(ctx, want, e)
	}
	return w.disconnected(ctx, want, e)
}

func (w *workload) connected(ctx context.Context, want wanted, e *Entry) error {
	r := w.r
	switch {
	case e == nil && !want.auto():
		return &Refusal{Reason: fmt.Sprintf("there is no WorkloadEntry %q in namespace %q, which the proxy says it is", w.name, w.namespace)}
	case e == nil:
		return w.create(ctx, want)
	case !want.auto() && !e.checked():
		return nil // it is somebody else's in every way
	}
	if err := r.mayHave(want.proxy, w.namespace, e.Spec.GetServiceAccount()); err != nil {
		return err
	}
	since, left := e.at(connectedAnnotation), e.Annotations[disconnectedAnnotation] != ""
	switch {
	case !w.claimed.Equal(want.since), left: // whoever says that it has left does not know of this connection
		return w.take(ctx, want, e)
	case since.After(w.claim): // it has moved on to another replica
		return nil
	case e.Annotations[controllerAnnotation] != r.instance || !since.Equal(w.claim):
		return w.take(ctx, want, e)
	}
	if want.health == nil || !r.healthChecks || !e.checked() {
		return nil
	}
	if list, differs := want.health.in(e.Conditions); differs {
		return r.store.SetConditions(ctx, e, list)
	}
	return nil
}

// take claims the entry for this replica: it says that the workload is connected here.
func (w *workload) take(ctx context.Context, want wanted, e *Entry) error {
	claim := want.since
	for _, last := range []time.Time{e.at(connectedAnnotation), e.at(disconnectedAnnotation)} {
		if !last.Before(claim) {
			claim = last.Add(time.Nanosecond)
		}
	}
	if err := w.r.store.Annotate(ctx, e, connected(w.r.instance, claim)); err != nil {
		return err
	}
	w.claimed, w.claim = want.since, claim
	w.r.metrics.Updated()
	w.rouse() // what is said of its health is for the version after this one
	return nil
}

func (w *workload) create(ctx context.Context, want wanted) error {
	r := w.r
	name := want.proxy.Metadata.AutoRegisterGroup
	group := r.group(w.namespace, name)
	if group == nil {
		return &Refusal{Reason: fmt.Sprintf("there is no WorkloadGroup %q in namespace %q to register with", name, w.namespace)}
	}
	e := newEntry(w.name, want.proxy, group)
	if err := r.mayHave(want.proxy, w.namespace, e.Spec.GetServiceAccount()); err != nil {
		return err
	}
	e.Annotations = merged(e.Annotations, map[string]string{controllerAnnotation: r.instance, connectedAnnotation: stamp(want.since)})
	if err := r.store.Create(ctx, e); err != nil {
		return err
	}
	w.claimed, w.claim = want.since, want.since
	r.metrics.Registered()
	r.log.Info("registered", "namespace", w.namespace, "name", w.name, "group", name)
	w.rouse() // for its health
	return nil
}

// disconnected notes that the workload is gone, and takes its entry away after the grace period, or its health if the entry is
// somebody else's. Neither is done to what another replica has taken over.
func (w *workload) disconnected(ctx context.Context, want wanted, e *Entry) (again time.Duration, err error) {
	r := w.r
	if e == nil || e.Annotations[controllerAnnotation] != r.instance || e.at(connectedAnnotation).After(w.claim) {
		return 0, nil
	}
	if !e.at(disconnectedAnnotation).Equal(want.gone) {
		if err := r.store.Annotate(ctx, e, disconnected(want.gone)); err != nil {
			return 0, err
		}
		r.metrics.Unregistered()
	}
	if left := want.gone.Add(r.grace).Sub(r.now()); left > 0 {
		return left, nil
	}
	return 0, r.cleanUp(ctx, e)
}
