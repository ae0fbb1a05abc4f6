package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

// Deployer deploys the proxies of Gateways while it runs.
type Deployer struct {
	o Options

	mu sync.Mutex
	// queue is the queue of the current Run, or nil.
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// some is closed when the first Spec is known, which is when the kinds exist.
	some     chan struct{}
	someOnce sync.Once
}

// New returns a Deployer. Without Log nothing is logged, without Applied nothing is counted, and
// the revision "default" becomes "". It sends no request before Run.
func New(o Options) *Deployer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Applied == nil {
		o.Applied = func(string, string) {}
	}
	if o.Revision == "default" {
		o.Revision = ""
	}
	return &Deployer{o: o, some: make(chan struct{})}
}

// Notify enqueues Gateways whose Spec has changed or is gone. It does not block. While no Run is
// active, it only records that there are Gateways.
func (d *Deployer) Notify(gateways ...types.NamespacedName) {
	if len(gateways) == 0 {
		return
	}
	d.someOnce.Do(func() { close(d.some) })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue == nil {
		return
	}
	for _, g := range gateways {
		d.queue.Add(g)
	}
}

// Bounds of the work: concurrent reconciliations, and the backoff of failed ones.
const (
	workers    = 4
	minBackoff = 500 * time.Millisecond
	maxBackoff = time.Minute
)

// Run deploys Gateways until ctx ends: at first all of Options.List, then the ones that Notify or a
// watch enqueues. It watches nothing until the first Notify. If a watch cannot be added it logs
// that and deploys nothing. Only the leader may call it. It can be called again after it has
// returned.
func (d *Deployer) Run(ctx context.Context) {
	select {
	case <-d.some:
	case <-ctx.Done():
		return
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackoff, maxBackoff),
	)
	d.setQueue(queue)
	defer d.setQueue(nil)
	group, ctx := errgroup.WithContext(ctx)
	r := &reconciler{
		Deployer:  d,
		applied:   map[objectKey]appliedObject{},
		unmanaged: map[objectKey]bool{},
		failures:  map[types.NamespacedName]string{},
	}
	r.watches = newWatches(ctx, group, d.o, r.enqueue, r.enqueueIf)
	group.Go(func() error {
		<-ctx.Done()
		queue.ShutDown()
		return nil
	})
	if r.watches.start() {
		for range workers {
			group.Go(func() error { r.work(ctx, queue); return nil })
		}
		for _, s := range d.o.List() {
			queue.Add(s.Gateway)
		}
	}
	_ = group.Wait() // the functions return no errors
}

// setQueue sets the queue to which Notify adds Gateways. While it is nil, because no Run is active,
// Notify drops them.
func (d *Deployer) setQueue(q workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = q
}

// reconciler is the state of one Run. The queue never returns a Gateway to two workers at a time.
type reconciler struct {
	*Deployer
	watches *watches

	stateMu sync.Mutex
	// applied are the last successful applies of this Run.
	applied map[objectKey]appliedObject
	// unmanaged are the logged objects that belong to others.
	unmanaged map[objectKey]bool
	// failures are the last logged failures by Gateway.
	failures map[types.NamespacedName]string
}

func (r *reconciler) enqueue(gateway types.NamespacedName) { r.Notify(gateway) }

// enqueueIf enqueues the Gateways with a Spec for which condition returns true.
func (r *reconciler) enqueueIf(condition func(*Spec) bool) {
	for _, s := range r.o.List() {
		if condition(s) {
			r.Notify(s.Gateway)
		}
	}
}

// work reconciles Gateways from the queue until that is shut down. A Gateway that fails, or panics
// while Options.Recovery is set, is logged and queued again with a backoff.
func (r *reconciler) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
	for {
		gateway, ended := queue.Get()
		if ended {
			return
		}
		err := r.o.Recovery.Call("gateway deployment", func() error { return r.reconcile(ctx, gateway) }, "gateway",
			gateway)
		switch {
		case err == nil:
			queue.Forget(gateway)
			r.logResolved(gateway)
		case ctx.Err() == nil:
			r.logFailure(gateway, err)
			queue.AddRateLimited(gateway)
		}
		queue.Done(gateway)
	}
}

// logFailure logs the failure of a Gateway, unless its last failure had the same text.
func (r *reconciler) logFailure(gateway types.NamespacedName, err error) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	if text := err.Error(); r.failures[gateway] != text {
		r.failures[gateway] = text
		r.o.Log.Warn("deploying the gateway failed, retrying", "gateway", gateway, "error", err)
	}
}

// logResolved logs that deploying a Gateway succeeded, if it had failed before.
func (r *reconciler) logResolved(gateway types.NamespacedName) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	if r.failures[gateway] != "" {
		delete(r.failures, gateway)
		r.o.Log.Info("deploying the gateway succeeded after failures", "gateway", gateway)
	}
}

// reconcile applies the objects of a Gateway that differ from the desired ones, except existing
// ones without managedLabel, and returns the first error. Then it deletes autoscalers and
// disruption budgets owned by the Gateway that no overlay requests, tries all, and returns the
// joined errors. If the Gateway does not exist, is being deleted, has no Spec, or belongs to
// another revision or a newer controller, it only drops the records of its applies.
func (r *reconciler) reconcile(ctx context.Context, gateway types.NamespacedName) error {
	spec, meta := r.o.Get(gateway), r.watches.gateway(gateway)
	if spec == nil || meta == nil || meta.GetDeletionTimestamp() != nil {
		r.forget(gateway)
		return nil
	}
	if !r.isOwnRevision(meta) {
		r.forget(gateway)
		return nil
	}
	if version, newer := newerController(meta.GetAnnotations()); newer {
		r.o.Log.Info("gateway not deployed: a newer controller deploys it", "gateway", gateway,
			"annotation", annotation.GatewayControllerVersion.Name, "version", version)
		r.forget(gateway)
		return nil
	}
	overlays, err := r.overlays(spec)
	if err != nil {
		return err
	}
	in := &input{Spec: spec, meta: meta, revision: r.o.Revision, copyMetadata: r.o.CopyMetadata}
	objects, err := applyOverlays(in.manifests(), overlays)
	if err != nil {
		return err
	}
	for _, m := range objects {
		if err := r.apply(ctx, gateway, m); err != nil {
			return err
		}
	}
	return r.deleteUnwanted(ctx, gateway, meta.GetUID(), objects)
}

// isOwnRevision reports whether this control plane deploys a Gateway: the label istio.io/rev of the
// Gateway, or else of its namespace, names its revision or a tag of it. Gateways without a label
// belong to the default revision.
func (r *reconciler) isOwnRevision(meta *metav1.PartialObjectMetadata) bool {
	wanted := meta.Labels[label.IoIstioRev.Name]
	if wanted == "" {
		wanted = r.watches.namespaceRevision(meta.Namespace)
	}
	if wanted == "" {
		wanted = defaultRevision
	}
	own := r.o.Revision
	if own == "" {
		own = defaultRevision
	}
	return wanted == own || r.watches.isTag(wanted, own)
}

const defaultRevision = "default"

// controllerVersion is the version of gateway controllers up to which this one deploys Gateways, as
// in Istio 1.18 and later. The annotation of a Gateway names the version that deployed it last.
const controllerVersion = 5

// newerController returns the value of the annotation gateway.istio.io/controller-version, and
// whether it names a newer controller than this one: a greater number, or a text that is none. It
// returns false without the annotation.
func newerController(annotations map[string]string) (version string, newer bool) {
	version, found := annotations[annotation.GatewayControllerVersion.Name]
	n, err := strconv.Atoi(version)
	return version, found && (err != nil || n > controllerVersion)
}

// overlays returns the overlays of a Gateway, the most specific last: its class's by label, its
// class's by parametersRef, and its own. Each may be missing. It returns an error if the Gateway's
// reference does not name a ConfigMap, or a referenced ConfigMap does not exist.
func (r *reconciler) overlays(spec *Spec) ([]map[string]string, error) {
	var list []map[string]string
	if data := r.watches.classDefaults(spec.Class); data != nil {
		list = append(list, data)
	}
	refs := []*types.NamespacedName{spec.ClassParameters}
	if i := spec.Infrastructure; i != nil && i.ParametersRef != nil {
		ref := i.ParametersRef
		if ref.Group != "" || ref.Kind != "ConfigMap" {
			return nil, fmt.Errorf("spec.infrastructure.parametersRef: kind %s of group %q is not supported, want a ConfigMap",
				ref.Kind, ref.Group)
		}
		refs = append(refs, &types.NamespacedName{Namespace: spec.Gateway.Namespace, Name: ref.Name})
	}
	for _, ref := range refs {
		if ref == nil {
			continue
		}
		data, err := r.watches.configMap(*ref)
		if err != nil {
			return nil, err
		}
		list = append(list, data)
	}
	return list, nil
}
