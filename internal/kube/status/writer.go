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

	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Options are the dependencies and settings of a Writer.
type Options struct {
	Inputs
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	// Namespace is the control plane's, Pod this replica's name. Revision is "" or "default" for
	// the default revision.
	Namespace, Pod, Revision string
	Limits                   Limits
	// Metrics and Log may be nil. Now defaults to the system's clock, Timing to [DefaultTiming].
	Metrics Metrics
	Log     *slog.Logger
	Now     func() time.Time
	Timing  Timing
}

// Writer writes the status of Istio's objects while it leads, and otherwise reports its counts to
// the leader.
type Writer struct {
	Options
	leading atomic.Bool
}

// New returns a Writer with defaults for options that are not set. By default nothing is logged or
// counted. It sends no request.
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
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	o.Limits = o.Limits.WithDefaults()
	return &Writer{Options: o}
}

type noMetrics struct{}

// Written does nothing.
func (noMetrics) Written(api.Kind, string) {}

// Run writes this replica's reports while it does not lead, until ctx ends. It then deletes its
// report.
func (w *Writer) Run(ctx context.Context) {
	r := &reporter{
		Inputs:    w.Inputs,
		client:    w.Kubernetes.CoreV1(),
		namespace: w.Namespace,
		pod:       w.Pod,
		leading:   &w.leading,
		now:       w.Now,
		timing:    w.Timing,
		log:       w.Log,
	}
	r.run(ctx)
}

// Lead writes the conditions of objects without a revision until ctx ends, and of all revisions'
// objects if this is the default revision. Only the leader of all revisions' replicas calls it.
func (w *Writer) Lead(ctx context.Context) {
	w.leading.Store(true)
	defer w.leading.Store(false)
	w.writeConditions(ctx, func(revision string) bool { return revision == "" || w.isDefault() })
}

// LeadRevision writes the conditions of objects that select a revision until ctx ends. It must not
// be called for the default revision, whose objects Lead writes. Only the leader of that revision's
// replicas calls it.
func (w *Writer) LeadRevision(ctx context.Context) {
	w.writeConditions(ctx, func(revision string) bool { return revision != "" })
}

// isDefault reports whether the writer's revision is the default one, which an empty revision is
// too.
func (w *Writer) isDefault() bool { return w.Revision == "" || w.Revision == "default" }

// writeConditions writes the conditions of objects of the selected revisions, and receives other
// replicas' reports, until ctx ends.
func (w *Writer) writeConditions(ctx context.Context, mine func(revision string) bool) {
	group, ctx := errgroup.WithContext(ctx)
	heard := newReportCollector(w.Pod+reportSuffix, w.Timing)
	news, end := w.Applied.subscribe()
	defer end()
	group.Go(func() error { w.watchReports(ctx, heard); return nil })
	group.Go(func() error {
		eval := &conditionEvaluator{
			Inputs:          w.Inputs,
			selectsRevision: mine,
			reports:         heard,
			now:             w.Now,
			timing:          w.Timing,
			distributing:    map[config.Key]distribution{},
		}
		newWriteLoop(eval, w.Options).run(ctx, news)
		return nil
	})
	_ = group.Wait() // they return no errors
}

// newWriteLoop returns a loop that writes the edits of an evaluator with the limits in o.
func newWriteLoop(j evaluator, o Options) *writeLoop {
	return &writeLoop{
		evaluator:    j,
		client:       o.Dynamic,
		versions:     served.New(o.Kubernetes, o.Now),
		limits:       o.Limits,
		timing:       o.Timing,
		limiter:      rate.NewLimiter(rate.Limit(o.Limits.QPS), o.Limits.Burst),
		metrics:      o.Metrics,
		log:          o.Log,
		recentWrites: map[config.Key]recentWrite{},
		retryAfter:   map[config.Key]time.Time{},
	}
}

// watchReports watches the reports of other replicas, passes them to the collector and deletes
// expired ones, until ctx ends. Each change notifies the subscribers of Applied. While watching
// fails, the leader counts only the proxies of replicas whose reports it has. If the watch cannot
// be set up, that is logged and watchReports returns.
func (w *Writer) watchReports(ctx context.Context, to *reportCollector) {
	informer := coreinformers.NewFilteredConfigMapInformer(
		w.Kubernetes,
		w.Namespace,
		0,
		cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.LabelSelector = reportLabel + "=true"
		},
	)
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
		to.setReport(c.Name, text, w.Now())
		w.Applied.Notify()
	}
	// The informer retries. Without reports the leader counts only its own proxies.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.Log.Debug("watching the status reports of other replicas failed", "error", err)
	})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { take(o, false) },
		UpdateFunc: func(_, o any) { take(o, false) },
		DeleteFunc: func(o any) { take(o, true) },
	})
	if err != nil {
		w.Log.Error("watching the status reports of other replicas failed", "error", err)
		return
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { informer.RunWithContext(ctx); return nil })
	group.Go(func() error { w.deleteExpiredReports(ctx, to); return nil })
	_ = group.Wait() // they return no errors
}

// deleteExpiredReports deletes the reports that arrived too long ago (expiredReports), every
// heartbeat, until ctx ends. Failures are logged.
func (w *Writer) deleteExpiredReports(ctx context.Context, of *reportCollector) {
	for ctx.Err() == nil {
		sleepContext(ctx, heartbeat)
		for _, name := range of.expiredReports(w.Now()) {
			if err := deleteConfigMap(ctx, w.Kubernetes.CoreV1(), w.Namespace, name); err != nil && ctx.Err() == nil {
				w.Log.Warn("deleting an expired status report failed, retrying", "error", err)
			}
		}
	}
}

// deleteConfigMap deletes a ConfigMap through the API server. A missing one is no error.
func deleteConfigMap(ctx context.Context, client typedcorev1.ConfigMapsGetter, namespace, name string) error {
	err := client.ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}
