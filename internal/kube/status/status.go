package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Options are the parts of a Writer.
type Options struct {
	Facts
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	// Namespace is the control plane's, Pod names this replica; Revision is empty or "default" for the default one.
	Namespace, Pod, Revision string
	Limits                   Limits
	// Metrics and Log may be nil; Now is nil for the system's clock, Pace the zero value for [DefaultPace].
	Metrics Metrics
	Log     *slog.Logger
	Now     func() time.Time
	Pace    Pace
}

// Writer keeps the conditions of Istio's objects, if it leads, and otherwise tells the leader what it knows.
type Writer struct {
	Options
	leading atomic.Bool
}

// New makes a Writer. It asks the API server nothing.
func New(o Options) *Writer {
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pace == (Pace{}) {
		o.Pace = DefaultPace()
	}
	o.Limits = o.Limits.filled()
	return &Writer{Options: o}
}

type noMetrics struct{}

func (noMetrics) Written(api.Kind, string) {}

// Run reports to the leader, until the context ends, while this replica does not lead.
func (w *Writer) Run(ctx context.Context) {
	r := &reporter{
		Facts: w.Facts, client: w.Kubernetes.CoreV1(), namespace: w.Namespace, pod: w.Pod, leading: &w.leading, now: w.Now, pace: w.Pace, log: w.Log,
	}
	r.run(ctx)
}

// Lead writes conditions until the context ends: into objects that are for all revisions, and into those of its own if this is the
// default one. It is for the leader of all revisions' replicas.
func (w *Writer) Lead(ctx context.Context) {
	w.leading.Store(true)
	defer w.leading.Store(false)
	w.lead(ctx, func(revision string) bool { return revision == "" || w.isDefault() })
}

// LeadRevision writes conditions into objects that are for a revision which is not the default one, until the context ends. It is
// for the leader of that revision's replicas.
func (w *Writer) LeadRevision(ctx context.Context) {
	w.lead(ctx, func(revision string) bool { return revision != "" && !w.isDefault() })
}

func (w *Writer) isDefault() bool { return w.Revision == "" || w.Revision == "default" }

func (w *Writer) lead(ctx context.Context, mine func(revision string) bool) {
	group, ctx := errgroup.WithContext(ctx)
	heard := newReports(w.Pod+reportSuffix, w.Pace)
	news, end := w.Book.news()
	defer end()
	group.Go(func() error { w.listen(ctx, heard); return nil })
	group.Go(func() error {
		judge := &conditions{Facts: w.Facts, mine: mine, reports: heard, now: w.Now, pace: w.Pace, open: map[config.Key]opened{}}
		newWriting(judge, w.Options).run(ctx, news)
		return nil
	})
	_ = group.Wait() // none of them fails
}

func newWriting(j judge, o Options) *writing {
	return &writing{
		judge: j, client: o.Dynamic, limits: o.Limits, pace: o.Pace, limiter: rate.NewLimiter(rate.Limit(o.Limits.QPS), o.Limits.Burst),
		metrics: o.Metrics, log: o.Log, fresh: map[config.Key]written{}, failed: map[config.Key]time.Time{},
	}
}

// listen follows what the other replicas report.
func (w *Writer) listen(ctx context.Context, to *reports) {
	informer := coreinformers.NewFilteredConfigMapInformer(w.Kubernetes, w.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = reportLabel + "=true"
	})
	take := func(o any, gone bool) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		c, ok := o.(*corev1.ConfigMap)
		if !ok {
			return
		}
		var text []byte
		if !gone {
			text = []byte(c.Data[reportField])
		}
		to.put(c.Name, text, w.Now())
		w.Book.Look()
	}
	// What cannot be watched is tried again; without reports the leader counts its own proxies alone.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.Log.Debug("reports of other replicas cannot be watched", "error", err)
	})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { take(o, false) }, UpdateFunc: func(_, o any) { take(o, false) }, DeleteFunc: func(o any) { take(o, true) },
	})
	if err != nil {
		w.Log.Error("reports of other replicas cannot be watched", "error", err)
		return
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { informer.RunWithContext(ctx); return nil })
	group.Go(func() error { w.sweep(ctx, to); return nil })
	_ = group.Wait() // none of them fails
}

// sweep takes the reports away of replicas that are gone.
func (w *Writer) sweep(ctx context.Context, of *reports) {
	for ctx.Err() == nil {
		pause(ctx, heartbeat)
		for _, name := range of.old(w.Now()) {
			if err := remove(ctx, w.Kubernetes.CoreV1(), w.Namespace, name); err != nil && ctx.Err() == nil {
				w.Log.Warn("the report of a replica that is gone stays", "error", err)
			}
		}
	}
}

func remove(ctx context.Context, client typedcorev1.ConfigMapsGetter, namespace, name string) error {
	err := client.ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}
