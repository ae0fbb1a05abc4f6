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

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Limits are how much is written.
type Limits struct {
	// QPS and Burst bound writes a second (PILOT_STATUS_QPS, PILOT_STATUS_BURST); 0: 100 and 500.
	QPS   float32
	Burst int
	// Workers bounds how many are under way at the same time (PILOT_STATUS_MAX_WORKERS); 0: 100.
	Workers int
	// Interval is how long is waited between two looks at everything (PILOT_STATUS_UPDATE_INTERVAL); 0: 500 ms.
	Interval time.Duration
}

func (l Limits) filled() Limits {
	return Limits{
		QPS: cmp.Or(l.QPS, 100), Burst: cmp.Or(l.Burst, 500), Workers: cmp.Or(l.Workers, 100), Interval: cmp.Or(l.Interval, 500*time.Millisecond),
	}
}

// Metrics are told what is written.
type Metrics interface {
	// Written counts a write of the status of an object of that kind: "written", "conflict" or "failed".
	Written(kind api.Kind, outcome string)
}

// fieldManager names the control plane as the writer of a field (metadata.managedFields).
const fieldManager = "pilot-discovery"

// edit is a change of an object's status that is due.
type edit struct {
	*object
	patch map[string]any
	// since says how new the reason is: what is newest is written first.
	since time.Time
}

// judge decides what is to be written into the status of objects.
type judge interface {
	// kinds gives the kinds that it writes about.
	kinds() map[api.Kind]struct{}
	// look goes through all objects and gives what is due of them. again is when it wants to look again though nothing changes; 0: never.
	look(each func(func(*object))) (due []edit, again time.Duration)
}

// writing is one time of leading: the objects as they are, and what was written of late.
type writing struct {
	judge   judge
	client  dynamic.Interface
	limits  Limits
	pace    Pace
	limiter *rate.Limiter
	metrics Metrics
	log     *slog.Logger
	watches *watches
	// fresh are objects as a write left them, for as long as the watch has not come so far.
	fresh map[config.Key]written
	// failed says when a write may be tried again that did not work; said is the last failure that was logged, and when.
	failed map[config.Key]time.Time
	said   failure
}

type failure struct {
	text string
	at   time.Time
}

// sayAgain is how long the same failure is not logged again.
const sayAgain = time.Minute

// written is a write: the object that it was worked out from, and what came of it; nil if that is not known.
type written struct{ from, to *object }

// run looks and writes until the context ends.
func (w *writing) run(ctx context.Context, changed <-chan struct{}) {
	wake := make(chan struct{}, 1)
	w.watches = newWatches(ctx, w.client, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer w.watches.wait()
	for ctx.Err() == nil {
		for kind := range w.judge.kinds() {
			if err := w.watches.want(kind); err != nil {
				w.log.Error("objects cannot be watched for their status", "kind", kind, "error", err)
			}
		}
		due, again := w.judge.look(w.each)
		more := w.write(ctx, due)
		var timer <-chan time.Time
		if more {
			again = w.limits.Interval
		}
		if again > 0 {
			timer = time.After(again)
		}
		pause(ctx, w.limits.Interval)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-changed:
		case <-timer:
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// each gives the newest that is known of each object.
func (w *writing) each(f func(*object)) {
	fresh := w.fresh
	w.fresh = map[config.Key]written{}
	w.watches.each(func(o *object) {
		k := o.key()
		last, ok := fresh[k]
		if !ok || last.from.ResourceVersion != o.ResourceVersion { // the watch has come so far
			f(o)
			return
		}
		w.fresh[k] = last
		if last.to != nil { // else what is there was seen to be old
			f(last.to)
		}
	})
}

// write writes what is due, the newest first, and says whether there is more: it does not go on for longer than about a second,
// for by then what was due may be out of date.
func (w *writing) write(ctx context.Context, due []edit) (more bool) {
	now := time.Now()
	maps.DeleteFunc(w.failed, func(_ config.Key, until time.Time) bool { return !now.Before(until) })
	due = slices.DeleteFunc(due, func(e edit) bool { _, failed := w.failed[e.key()]; return failed })
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
			results[i] = w.patch(writing, e)
			return nil
		})
	}
	_ = group.Wait() // each has its result
	for i, e := range due[:at] {
		w.note(e, results[i], now)
	}
	return at < len(due) || len(w.failed) > 0
}

// result is what came of a write; nothing at all if it was not tried.
type result struct {
	object *object
	err    error
}

// watched gives the object as the watch has it, of one that may be what a write left.
func (w *writing) watched(o *object) *object {
	if last, ok := w.fresh[o.key()]; ok && last.to == o {
		return last.from
	}
	return o
}

func (w *writing) note(e edit, r result, now time.Time) {
	k := e.key()
	delete(w.failed, k)
	switch {
	case r.object != nil:
		w.metrics.Written(k.Kind, "written")
		w.fresh[k] = written{from: w.watched(e.object), to: r.object}
	case r.err == nil:
	case apierrors.IsConflict(r.err):
		w.metrics.Written(k.Kind, "conflict")
		w.fresh[k] = written{from: w.watched(e.object)} // the newer one is on its way
	case apierrors.IsNotFound(r.err):
	default:
		w.metrics.Written(k.Kind, "failed")
		if text := string(apierrors.ReasonForError(r.err)); w.said.text != text || now.Sub(w.said.at) >= sayAgain { // others fail for the same reason
			w.said = failure{text, now}
			w.log.Warn("the status could not be written", "object", k.String(), "error", r.err)
		}
		w.failed[k] = now.Add(w.pace.Retry)
	}
}

// patchTimeout bounds one write.
const patchTimeout = 10 * time.Second

// patch writes a change of a status. The API server refuses it if the object is not as it was when the change was worked out.
func (w *writing) patch(ctx context.Context, e edit) result {
	gvr, err := resource(e.kind)
	if err != nil {
		return result{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
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
