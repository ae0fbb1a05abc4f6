package status

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	"istio.io/api/label"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// object holds the parts of an API object that are needed to evaluate and write its status. It is
// immutable.
type object struct {
	metav1.ObjectMeta // only name, namespace, generation, resource version

	kind api.Kind
	// revision is the control plane revision that the object selects (label istio.io/rev); empty
	// selects all.
	revision string
	status   document
}

// key returns the key of the object.
func (o *object) key() config.Key {
	return config.Key{Kind: o.kind, Namespace: o.Namespace, Name: o.Name}
}

// objectWatches runs an informer for each wanted kind until its context ends.
type objectWatches struct {
	client   dynamic.Interface
	versions *served.Versions
	changed  func()
	group    *errgroup.Group
	ctx      context.Context

	mu        sync.Mutex
	informers map[api.Kind]cache.SharedIndexInformer
}

// newObjectWatches returns watches that have no kind yet and end with ctx. changed is called after
// each addition and update, from several goroutines.
func newObjectWatches(
	ctx context.Context,
	client dynamic.Interface,
	versions *served.Versions,
	changed func(),
) *objectWatches {
	group, ctx := errgroup.WithContext(ctx)
	return &objectWatches{
		client:    client,
		versions:  versions,
		changed:   changed,
		group:     group,
		ctx:       ctx,
		informers: map[api.Kind]cache.SharedIndexInformer{},
	}
}

// wait blocks until all informers have stopped.
func (w *objectWatches) wait() { _ = w.group.Wait() }

// watchKind starts the informer of a kind, if it is not running, in the version that the API server
// serves. Added and updated objects call changed; deleted ones do not. It returns an error if the
// informer cannot be set up.
func (w *objectWatches) watchKind(kind api.Kind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informers[kind] != nil {
		return nil
	}
	informer, err := newInformer(w.client, informerOptions{
		resource: func(ctx context.Context) (schema.GroupVersionResource, error) {
			return w.versions.Resource(ctx, kind)
		},
		trim: func(o any) (any, error) { return trimObject(kind, o) },
		handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { w.changed() }, UpdateFunc: func(_, _ any) { w.changed() },
		},
	})
	if err != nil {
		return err
	}
	w.informers[kind] = informer
	w.group.Go(func() error { informer.RunWithContext(w.ctx); return nil })
	return nil
}

// trimObject converts an unstructured object to an object; others are returned as they are.
func trimObject(kind api.Kind, o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	return newObject(kind, u), nil
}

// newObject returns the part of an unstructured object that is needed to write its status. A status
// that is no map is ignored.
func newObject(kind api.Kind, u *unstructured.Unstructured) *object {
	status, _, _ := unstructured.NestedMap(u.Object, "status") // an invalid status is ignored
	return &object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       u.GetNamespace(),
			Name:            u.GetName(),
			Generation:      u.GetGeneration(),
			ResourceVersion: u.GetResourceVersion(),
		},
		kind: kind, revision: u.GetLabels()[label.IoIstioRev.Name], status: status,
	}
}

// forEach calls f with every object of the kinds that have synced; others are skipped. f runs
// without the lock; objects must not be modified.
func (w *objectWatches) forEach(f func(*object)) {
	w.mu.Lock()
	list := maps.Clone(w.informers)
	w.mu.Unlock()
	for _, informer := range list {
		if !informer.HasSynced() {
			continue
		}
		for _, o := range informer.GetStore().List() {
			if o, ok := o.(*object); ok {
				f(o)
			}
		}
	}
}
