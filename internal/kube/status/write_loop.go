package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Limits bound the rate of writes.
type Limits struct {
	// QPS and Burst limit writes per second (PILOT_STATUS_QPS, default 100; PILOT_STATUS_BURST,
	// default 500).
	QPS   float32
	Burst int
	// Workers bounds concurrent writes (PILOT_STATUS_MAX_WORKERS, default 100).
	Workers int
	// Interval is the minimum time between two evaluations of all objects
	// (PILOT_STATUS_UPDATE_INTERVAL, default 500 ms).
	Interval time.Duration
}

// WithDefaults returns the limits with the default of each that is 0.
func (l Limits) WithDefaults() Limits {
	return Limits{
		QPS:      cmp.Or(l.QPS, 100),
		Burst:    cmp.Or(l.Burst, 500),
		Workers:  cmp.Or(l.Workers, 100),
		Interval: cmp.Or(l.Interval, 500*time.Millisecond),
	}
}

// Metrics counts status writes.
type Metrics interface {
	// Written counts a write of the status of an object of this kind by its outcome: "written",
	// "conflict" or "failed".
	Written(kind api.Kind, outcome string)
}

// fieldManager is the manager in metadata.managedFields.
const fieldManager = "pilot-discovery"

// edit is a pending change of an object's status.
type edit struct {
	*object
	patch map[string]any
	// since is the time of the cause; the newest edits are written first.
	since time.Time
}

// evaluator decides what to write into the status of objects.
type evaluator interface {
	// watchedKinds returns the kinds to watch.
	watchedKinds() map[api.Kind]struct{}
	// evaluate returns the edits that are due for all objects, and when to evaluate again even if
	// nothing changes; 0 means never.
	evaluate(each func(func(*object))) (due []edit, again time.Duration)
}

// writeLoop evaluates and writes objects during one leadership.
type writeLoop struct {
	evaluator evaluator
	client    dynamic.Interface
	versions  *served.Versions
	limits    Limits
	timing    Timing
	limiter   *rate.Limiter
	metrics   Metrics
	log       *slog.Logger
	watches   *objectWatches
	// recentWrites are the results of writes that the watch has not delivered yet.
	recentWrites map[config.Key]recentWrite
	// retryAfter is when failed writes may be retried. lastLogged is the last failure that was
	// logged.
	retryAfter map[config.Key]time.Time
	lastLogged loggedFailure
}

type loggedFailure struct {
	text string
	at   time.Time
}

// logInterval is the minimum time between logs of the same failure.
const logInterval = time.Minute

// recentWrite is a write: the object that it was computed from, and the result, or nil if that is
// unknown.
type recentWrite struct{ from, to *object }

// run evaluates and writes until ctx ends: after changes, when the evaluator asks for it, and while
// edits remain, at most every limits.Interval. It returns after its informers have stopped. A kind
// that cannot be watched is logged and tried again in the next round.
func (w *writeLoop) run(ctx context.Context, changed <-chan struct{}) {
	wake := notify.NewWake()
	w.watches = newObjectWatches(ctx, w.client, w.versions, wake.Notify)
	defer w.watches.wait()
	for ctx.Err() == nil {
		for kind := range w.evaluator.watchedKinds() {
			if err := w.watches.watchKind(kind); err != nil {
				w.log.Error("watching objects to write their status failed, retrying", "kind", kind, "error", err)
			}
		}
		due, again := w.evaluator.evaluate(w.forEachLatest)
		more := w.writeEdits(ctx, due)
		var timer <-chan time.Time
		if more {
			again = w.limits.Interval
		}
		if again > 0 {
			timer = time.After(again)
		}
		sleepContext(ctx, w.limits.Interval)
		select {
		case <-ctx.Done():
		case <-wake.C():
		case <-changed:
		case <-timer:
		}
	}
}

// sleepContext sleeps for d or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// forEachLatest calls f with the latest known version of each object: the written version, until
// the watch delivers another. After a conflict it skips the object until then. It forgets writes
// that the watch has caught up with.
func (w *writeLoop) forEachLatest(f func(*object)) {
	fresh := w.recentWrites
	w.recentWrites = map[config.Key]recentWrite{}
	w.watches.forEach(func(o *object) {
		k := o.key()
		last, ok := fresh[k]
		if !ok || last.from.ResourceVersion != o.ResourceVersion { // the watch has caught up
			f(o)
			return
		}
		w.recentWrites[k] = last
		if last.to != nil { // otherwise the watched version is outdated
			f(last.to)
		}
	})
}

// writeEdits writes the due edits, newest first, and reports whether edits remain or have to be
// retried. It writes at most what the rate limit allows in a second or as a burst now, because the
// remaining edits may be outdated by then. Edits that failed recently are left out.
func (w *writeLoop) writeEdits(ctx context.Context, due []edit) (more bool) {
	now := time.Now()
	maps.DeleteFunc(w.retryAfter, func(_ config.Key, until time.Time) bool { return !now.Before(until) })
	due = slices.DeleteFunc(due, func(e edit) bool { _, failed := w.retryAfter[e.key()]; return failed })
	slices.SortStableFunc(due, func(a, b edit) int { return b.since.Compare(a.since) })
	at := min(len(due), max(1, int(w.limits.QPS), int(w.limiter.Tokens())))
	results := make([]result, at)
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(w.limits.Workers)
	for i, e := range due[:at] {
		if w.limiter.Wait(ctx) != nil {
			break
		}
		group.Go(func() error {
			results[i] = w.patchStatus(writing, e)
			return nil
		})
	}
	_ = group.Wait() // errors are in results
	for i, e := range due[:at] {
		w.recordResult(e, results[i], now)
	}
	return at < len(due) || len(w.retryAfter) > 0
}

// result is the result of a write; it is empty if the write was not attempted.
type result struct {
	object *object
	err    error
}

// watchedVersion returns the watched version of an object that may come from recentWrites, and
// otherwise the object itself.
func (w *writeLoop) watchedVersion(o *object) *object {
	if last, ok := w.recentWrites[o.key()]; ok && last.to == o {
		return last.from
	}
	return o
}

// recordResult counts the result of a write and updates recentWrites, and retryAfter for a failure.
// Conflicts and deleted objects are no failures. Failures are logged at most once per logInterval
// and reason. A write without a change only clears retryAfter.
func (w *writeLoop) recordResult(e edit, r result, now time.Time) {
	k := e.key()
	delete(w.retryAfter, k)
	switch {
	case r.object != nil:
		w.metrics.Written(k.Kind, "written")
		w.recentWrites[k] = recentWrite{from: w.watchedVersion(e.object), to: r.object}
	case r.err == nil:
	case apierrors.IsConflict(r.err):
		w.metrics.Written(k.Kind, "conflict")
		// the watch will deliver the newer version
		w.recentWrites[k] = recentWrite{from: w.watchedVersion(e.object)}
	case apierrors.IsNotFound(r.err):
	default:
		w.metrics.Written(k.Kind, "failed")
		if text := string(apierrors.ReasonForError(r.err)); w.lastLogged.text != text ||
			now.Sub(w.lastLogged.at) >= logInterval { // others fail for the same reason
			w.lastLogged = loggedFailure{text, now}
			w.log.Warn("writing an object's status failed, retrying", "object", k.String(), "error", r.err)
		}
		w.retryAfter[k] = now.Add(w.timing.RetryDelay)
	}
}

// patchTimeout bounds one write.
const patchTimeout = 10 * time.Second

// patchStatus patches the status and returns the new object or an error. The API server returns a
// conflict if the object's resource version has changed. The request takes at most patchTimeout.
func (w *writeLoop) patchStatus(ctx context.Context, e edit) result {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	gvr, err := w.versions.Resource(ctx, e.kind)
	if err != nil {
		return result{err: err}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": e.ResourceVersion}, "status": e.patch,
	})
	if err != nil {
		return result{err: fmt.Errorf("encode the status of %s: %w", e.key(), err)}
	}
	u, err := w.client.Resource(gvr).Namespace(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return result{err: err}
	}
	return result{object: newObject(e.kind, u)}
}
