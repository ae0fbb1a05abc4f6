package event

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

const (
	// defaultInterval is the time between two looks at the Problems.
	defaultInterval = 5 * time.Second
	// renewAfter is the age at which the Event of a lasting Problem is renewed. API servers delete
	// Events after an hour by default.
	renewAfter = 45 * time.Minute
	// retryAfter is the time after which a write that failed is repeated.
	retryAfter = time.Minute
	// maxPerObject limits the Events of one object.
	maxPerObject = 10
	// confirmations is the number of consecutive looks that must find a Problem before it is reported.
	confirmations = 2
)

// Outcome is what became of an Event, for metrics.
type Outcome string

// The outcomes of an Event.
const (
	Written    Outcome = "written"
	Renewed    Outcome = "renewed"    // it existed already
	Suppressed Outcome = "suppressed" // the object has maxPerObject Events
	Failed     Outcome = "failed"     // it is tried again
)

// Options configure a Writer.
type Options struct {
	// Problems returns the current Problems. Warnings are ignored, unless they are
	// about rejections or conflicts.
	Problems func() []config.Problem
	// Dynamic reads the objects, and Kubernetes writes the Events.
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	// Pod is the name of this replica.
	Pod string
	// Interval is the time between two looks (default 5 s).
	Interval time.Duration
	// Count is called for each Event. If nil, nothing is counted.
	Count func(api.Kind, Outcome)
	// Log and Clock default to none and to the system's clock.
	Log   *slog.Logger
	Clock clock.Clock
}

// Writer writes Events on the objects of Problems.
type Writer struct {
	Options
	versions *served.Versions
}

// New returns a Writer. Interval defaults to 5 s and Clock to the system's; without Count and Log
// nothing is counted or logged. It sends no request.
func New(o Options) *Writer {
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Count == nil {
		o.Count = func(api.Kind, Outcome) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	return &Writer{o, served.New(o.Kubernetes, o.Clock.Now)}
}

// reported is the state of one Problem.
type reported struct {
	// looks is the number of consecutive looks that found the Problem.
	looks int
	// next is when its Event is written again; zero if it was not written yet.
	next time.Time
	// suppressed is set once the Event was counted as suppressed.
	suppressed bool
}

// Run writes Events until ctx ends. Every Interval it reads the Problems, and writes or renews the
// Events that are due (reportProblems). A Problem must be found twice in succession. Failed writes
// are logged and repeated.
func (w *Writer) Run(ctx context.Context) {
	known := map[config.Problem]*reported{}
	for {
		known = w.reportProblems(ctx, known)
		select {
		case <-ctx.Done():
			return
		case <-w.Clock.After(w.Interval):
		}
	}
}

// reportProblems writes the Events that are due: of Problems found at least confirmations times in
// succession, and at most maxPerObject for an object. It returns the state of the current Problems.
// Unknown kinds, equal Problems, and ones that are not reported (isReported) are skipped. It counts
// suppressed Problems once.
func (w *Writer) reportProblems(ctx context.Context, known map[config.Problem]*reported) map[config.Problem]*reported {
	next := map[config.Problem]*reported{}
	events := map[config.Key]int{}
	for _, p := range w.Problems() {
		info, _ := api.Info(p.Key.Kind)
		if !isReported(p) || info.Plural == "" || next[p] != nil {
			continue
		}
		state := known[p]
		if state == nil {
			state = &reported{}
		}
		next[p] = state
		state.looks++
		if state.looks < confirmations {
			continue
		}
		if events[p.Key]++; events[p.Key] > maxPerObject {
			if !state.suppressed {
				state.suppressed = true
				w.Count(p.Key.Kind, Suppressed)
			}
			continue
		}
		if now := w.Clock.Now(); !now.Before(state.next) && ctx.Err() == nil {
			state.next = now.Add(w.reportProblem(ctx, p))
		}
	}
	return next
}

// reportProblem writes the Event of a Problem, counts the outcome and logs a failure. It returns
// the time until the Event is due again: renewAfter, after a failure retryAfter, and 0 if ctx
// ended. If the API server does not have the object, as with objects from files, it only returns
// renewAfter.
func (w *Writer) reportProblem(ctx context.Context, p config.Problem) time.Duration {
	reference, err := w.findObject(ctx, p.Key)
	if err == nil && reference == nil {
		return renewAfter
	}
	outcome := Failed
	if err == nil {
		outcome, err = w.writeEvent(ctx, newEvent(*reference, p, w.Pod, w.Clock.Now()))
	}
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		w.Log.Warn("writing an event failed, retrying", "object", p.Key.String(), "error", err)
	}
	w.Count(p.Key.Kind, outcome)
	if outcome == Failed {
		return retryAfter
	}
	return renewAfter
}

// findObject returns a reference to an object in the version of its kind that the API server
// serves. It returns nil without an error if there is no such object or version, and an error for
// an unknown kind. It lists with a name, because a control plane may list the kinds that it reads,
// and not get them.
func (w *Writer) findObject(ctx context.Context, k config.Key) (*corev1.ObjectReference, error) {
	resource, err := w.versions.Resource(ctx, k.Kind)
	if errors.Is(err, served.ErrNotServed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := w.Dynamic.Resource(resource).Namespace(k.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + k.Name, ResourceVersion: "0",
	})
	if apierrors.IsNotFound(err) { // the only version of the kind is not served
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		if o.GetName() == k.Name {
			return &corev1.ObjectReference{
				APIVersion: resource.GroupVersion().String(), Kind: k.Kind.Name(),
				Namespace: k.Namespace, Name: k.Name, UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			}, nil
		}
	}
	return nil, nil
}

// writeEvent creates an Event, or renews the time of an existing one, so that it does not expire.
// It returns Written or Renewed, or Failed with the error.
func (w *Writer) writeEvent(ctx context.Context, e *corev1.Event) (Outcome, error) {
	events := w.Kubernetes.CoreV1().Events(e.Namespace)
	_, err := events.Create(ctx, e, metav1.CreateOptions{})
	switch {
	case err == nil:
		return Written, nil
	case !apierrors.IsAlreadyExists(err):
		return Failed, err
	}
	if _, err = events.Patch(ctx, e.Name, types.MergePatchType, renewal(e), metav1.PatchOptions{}); err != nil {
		return Failed, err
	}
	return Renewed, nil
}
