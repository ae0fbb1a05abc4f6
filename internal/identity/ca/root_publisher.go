package ca

import (
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

// RootConfigMap is the ConfigMap that pods mount to know whom to trust, RootConfigMapKey the key of the roots in it, and
// RevokedConfigMapKey that of the lists of revoked certificates, if there are any.
const (
	RootConfigMap       = "istio-ca-root-cert"
	RootConfigMapKey    = rootsName
	RevokedConfigMapKey = revokedName
)

// RootPublisher keeps a ConfigMap with the roots in every namespace of a cluster: in new ones, after edits, and when there are other roots.
// Of several replicas only one should run it.
type RootPublisher struct {
	Client kubernetes.Interface
	// Roots gives the roots in PEM, none while there are none, and a channel that is closed when there are others.
	Roots func() ([]byte, <-chan struct{})
	// Revoked gives the lists of revoked certificates that go with the roots, in PEM; nil: there never are any.
	Revoked func() []byte
	// Selected says whether a namespace is one of the mesh's (MeshConfig.discoverySelectors), and Selection gives a channel that
	// is closed when it may say something else; nil: all are.
	Selected  func(labels map[string]string) bool
	Selection func() <-chan struct{}
	Log       *slog.Logger
}

// ignoredNamespaces are Kubernetes' own, in which no workload is of the mesh, as Istio has them.
func ignoredNamespaces() []string {
	return []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}
}

// Run publishes until the context ends.
func (p RootPublisher) Run(ctx context.Context) error {
	named := informers.NewSharedInformerFactoryWithOptions(p.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, RootConfigMap).String()
	}))
	all := informers.NewSharedInformerFactory(p.Client, 0)
	configMaps, namespaces := named.Core().V1().ConfigMaps(), all.Core().V1().Namespaces()
	// A publisher that is killed leaves nothing half done, so a short pause after failures will do.
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second))
	defer queue.ShutDown() // also where the caches were never in sync
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
	work := publishing{p, configMaps.Lister(), namespaces.Lister(), queue, &contest{now: time.Now, written: map[string]*writing{}}}
	go work.again(ctx)
	return work.run(ctx)
}

// publishing is a RootPublisher at work.
type publishing struct {
	RootPublisher
	maps       corelisters.ConfigMapLister
	namespaces corelisters.NamespaceLister
	queue      workqueue.TypedRateLimitingInterface[string]
	contest    *contest // of run's goroutine
}

// again looks at all namespaces when there are other roots, or other namespaces are of the mesh.
func (p publishing) again(ctx context.Context) {
	defer p.queue.ShutDown()
	for {
		_, roots := p.Roots()
		var selection <-chan struct{}
		if p.Selection != nil {
			selection = p.Selection()
		}
		list, _ := p.namespaces.List(labels.Everything()) // a cache does not fail
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

func (p publishing) run(ctx context.Context) error {
	for {
		namespace, stop := p.queue.Get()
		if stop {
			return nil
		}
		err := p.publish(ctx, namespace)
		switch {
		case err == nil, ctx.Err() != nil:
			p.queue.Forget(namespace)
		default:
			if !apierrors.IsConflict(err) {
				p.Log.Warn("the roots could not be published", "namespace", namespace, "err", err)
			}
			p.queue.AddRateLimited(namespace)
		}
		p.queue.Done(namespace)
	}
}

// publish makes one namespace right.
func (p publishing) publish(ctx context.Context, namespace string) error {
	ns, err := p.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) || err == nil && !p.wanted(ns) {
		return nil
	}
	roots, _ := p.Roots()
	if err != nil || len(roots) == 0 {
		return err
	}
	data := p.data(roots)
	old, err := p.maps.ConfigMaps(namespace).Get(RootConfigMap)
	if apierrors.IsNotFound(err) {
		_, err = p.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RootConfigMap, Labels: map[string]string{"istio.io/config": "true"}},
			Data:       data,
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
			return nil // the watch tells of it, or the namespace goes
		}
		return err
	}
	if err != nil {
		return err
	}
	next := old.DeepCopy()
	delete(next.Data, RevokedConfigMapKey)
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	if maps.Copy(next.Data, data); maps.Equal(next.Data, old.Data) {
		return nil
	}
	wait, contested := p.contest.pause(namespace, data)
	if wait > 0 {
		p.queue.AddAfter(namespace, wait)
		return nil
	}
	if contested {
		p.Log.Warn("another program keeps writing other roots where the mesh's are published, perhaps a second control plane with an authority of its own;"+
			" workloads get now these and now those", "for_instance", "ConfigMap "+namespace+"/"+RootConfigMap)
	}
	_, err = p.Client.CoreV1().ConfigMaps(namespace).Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the watch tells of it
	}
	return err
}

// data is what is ours in the ConfigMap.
func (p publishing) data(roots []byte) map[string]string {
	data := map[string]string{RootConfigMapKey: string(roots)}
	if p.Revoked != nil {
		if revoked := p.Revoked(); len(revoked) > 0 {
			data[RevokedConfigMapKey] = string(revoked)
		}
	}
	return data
}

func (p publishing) wanted(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp == nil && !slices.Contains(ignoredNamespaces(), ns.Name) && (p.Selected == nil || p.Selected(ns.Labels))
}
