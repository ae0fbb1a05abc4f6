package ca

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// RootConfigMap is the default name of the ConfigMap that pods mount to get their trust anchors.
// RootConfigMapKey is its key with the roots, CRLConfigMapKey the one with the revocation lists, if
// there are any.
const (
	RootConfigMap    = "istio-ca-root-cert"
	RootConfigMapKey = rootsName
	CRLConfigMapKey  = crlName
)

// RootPublisher maintains a ConfigMap with the roots in every namespace of a cluster. It reconciles
// when namespaces or ConfigMaps change and when the roots change. Of several replicas only the
// leader should run it.
type RootPublisher struct {
	Client kubernetes.Interface
	// Name is the name of the ConfigMap; if empty, RootConfigMap.
	Name string
	// Roots returns the roots in PEM, or none while there are none, and a channel that is closed
	// when they change.
	Roots func() ([]byte, <-chan struct{})
	// RevocationLists returns the CRLs in PEM. If nil, none are published.
	RevocationLists func() []byte
	// NamespaceSelected reports whether a namespace belongs to the mesh
	// (MeshConfig.discoverySelectors). SelectionChanged returns a channel that is closed when its
	// result may change. If nil, all namespaces are selected.
	NamespaceSelected func(labels map[string]string) bool
	SelectionChanged  func() <-chan struct{}
	Log               *slog.Logger
}

// name returns the name of the ConfigMap.
func (p RootPublisher) name() string { return cmp.Or(p.Name, RootConfigMap) }

// ignoredNamespaces returns the system namespaces, which get no ConfigMap, as in Istio.
func ignoredNamespaces() []string {
	return []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}
}

// Run keeps the ConfigMap up to date in all selected namespaces, except system namespaces and ones
// that are being deleted, until ctx ends. It then returns nil. Failed namespaces are retried with a
// backoff of at most 30 seconds. It returns an error only if it cannot start.
func (p RootPublisher) Run(ctx context.Context) error {
	named := informers.NewSharedInformerFactoryWithOptions(
		p.Client,
		0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, p.name()).String()
		}),
	)
	all := informers.NewSharedInformerFactory(p.Client, 0)
	configMaps, namespaces := named.Core().V1().ConfigMaps(), all.Core().V1().Namespaces()
	// Writes are idempotent, so failures are retried soon.
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second),
	)
	defer queue.ShutDown() // also if the caches never synced
	enqueue := func(name func(metav1.Object) string) cache.ResourceEventHandlerFuncs {
		add := func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, ok := o.(metav1.Object); ok {
				queue.Add(name(m))
			}
		}
		return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }, DeleteFunc: add}
	}
	if _, err := configMaps.Informer().AddEventHandler(enqueue(metav1.Object.GetNamespace)); err != nil {
		return fmt.Errorf("watch ConfigMaps: %w", err)
	}
	if _, err := namespaces.Informer().AddEventHandler(enqueue(metav1.Object.GetName)); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	named.Start(ctx.Done())
	all.Start(ctx.Done())
	defer named.Shutdown()
	defer all.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), configMaps.Informer().HasSynced, namespaces.Informer().HasSynced) {
		return nil
	}
	work := publishLoop{
		p,
		configMaps.Lister(),
		namespaces.Lister(),
		queue,
		&writeConflicts{now: time.Now, writes: map[string]*lastWrite{}},
	}
	go work.enqueueOnChange(ctx)
	return work.processQueue(ctx)
}

// publishLoop is the state of one Run of a RootPublisher.
type publishLoop struct {
	RootPublisher
	maps       corelisters.ConfigMapLister
	namespaces corelisters.NamespaceLister
	queue      workqueue.TypedRateLimitingInterface[string]
	conflicts  *writeConflicts // used by processQueue's goroutine only
}

// enqueueOnChange enqueues all namespaces now and whenever the roots or the namespace selection
// change. It shuts the queue down when ctx ends.
func (p publishLoop) enqueueOnChange(ctx context.Context) {
	defer p.queue.ShutDown()
	for {
		_, roots := p.Roots()
		var selection <-chan struct{}
		if p.SelectionChanged != nil {
			selection = p.SelectionChanged()
		}
		list, _ := p.namespaces.List(labels.Everything()) // a lister does not fail
		for _, ns := range list {
			p.queue.Add(ns.Name)
		}
		select {
		case <-ctx.Done():
			return
		case <-roots:
		case <-selection:
		}
	}
}

// processQueue reconciles namespaces from the queue until it is shut down, and then returns nil. It
// enqueues failed namespaces again with a backoff, and logs failures other than update conflicts.
func (p publishLoop) processQueue(ctx context.Context) error {
	for {
		namespace, stop := p.queue.Get()
		if stop {
			return nil
		}
		err := p.reconcileNamespace(ctx, namespace)
		switch {
		case err == nil, ctx.Err() != nil:
			p.queue.Forget(namespace)
		default:
			if !apierrors.IsConflict(err) {
				p.Log.Warn("publishing the mesh roots failed, retrying", "namespace", namespace, "err", err)
			}
			p.queue.AddRateLimited(namespace)
		}
		p.queue.Done(namespace)
	}
}

// reconcileNamespace creates the ConfigMap of one namespace or updates it. It skips namespaces that
// are deleted or that wantsConfigMap refuses, and does nothing while there are no roots.
func (p publishLoop) reconcileNamespace(ctx context.Context, namespace string) error {
	ns, err := p.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) || err == nil && !p.wantsConfigMap(ns) {
		return nil
	}
	roots, _ := p.Roots()
	if err != nil || len(roots) == 0 {
		return err
	}
	data := p.configMapData(roots)
	old, err := p.maps.ConfigMaps(namespace).Get(p.name())
	switch {
	case apierrors.IsNotFound(err):
		return p.createConfigMap(ctx, namespace, data)
	case err != nil:
		return err
	default:
		return p.updateConfigMap(ctx, old, data)
	}
}

// createConfigMap creates the ConfigMap of a namespace with data and the label
// istio.io/config=true. It is no error if another client has created the ConfigMap, or if the
// namespace is being deleted.
func (p publishLoop) createConfigMap(ctx context.Context, namespace string, data map[string]string) error {
	_, err := p.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      p.name(),
			Labels:    map[string]string{"istio.io/config": "true"},
		},
		Data: data,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		apierrors.IsNotFound(err) {
		return nil // the informer will enqueue it, or the namespace is being deleted
	}
	return err
}

// updateConfigMap sets data in the ConfigMap old, removes obsolete revocation lists and keeps other
// keys. It does nothing if that changes nothing. If another program replaced the data, the update
// may be delayed: then nothing is written and the namespace is enqueued
// (writeConflicts.reserveWrite). At the threshold one warning is logged. A concurrent deletion is
// no error.
func (p publishLoop) updateConfigMap(ctx context.Context, old *corev1.ConfigMap, data map[string]string) error {
	next := old.DeepCopy()
	delete(next.Data, CRLConfigMapKey)
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	if maps.Copy(next.Data, data); maps.Equal(next.Data, old.Data) {
		return nil
	}
	wait, contested := p.conflicts.reserveWrite(old.Namespace, data)
	if wait > 0 {
		p.queue.AddAfter(old.Namespace, wait)
		return nil
	}
	if contested {
		p.Log.Warn("another program keeps overwriting the published roots, perhaps a second control plane with its own"+
			" authority; workloads alternate between both sets of roots",
			"example", "ConfigMap "+old.Namespace+"/"+old.Name)
	}
	_, err := p.Client.CoreV1().ConfigMaps(old.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the informer will enqueue it
	}
	return err
}

// configMapData returns the keys that the publisher owns in the ConfigMap, with their values: the
// roots, and the revocation lists if there are any.
func (p publishLoop) configMapData(roots []byte) map[string]string {
	data := map[string]string{RootConfigMapKey: string(roots)}
	if p.RevocationLists != nil {
		if revoked := p.RevocationLists(); len(revoked) > 0 {
			data[CRLConfigMapKey] = string(revoked)
		}
	}
	return data
}

// wantsConfigMap reports whether the namespace gets the ConfigMap: it is selected, not ignored and
// not being deleted.
func (p publishLoop) wantsConfigMap(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp == nil && !slices.Contains(ignoredNamespaces(), ns.Name) &&
		(p.NamespaceSelected == nil || p.NamespaceSelected(ns.Labels))
}
