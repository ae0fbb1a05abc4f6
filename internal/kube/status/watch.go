package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	"istio.io/api/label"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// object is what the API server has of an object: its status, and what it takes to write it. It is immutable.
type object struct {
	metav1.ObjectMeta // name, namespace, generation and resource version alone

	kind api.Kind
	// revision is the control plane that the object is for (label istio.io/rev); empty: all.
	revision string
	status   document
}

func (o *object) key() config.Key {
	return config.Key{Kind: o.kind, Namespace: o.Namespace, Name: o.Name}
}

// resource names the kind in URLs, in its storage version.
func resource(kind api.Kind) (schema.GroupVersionResource, error) {
	k, known := api.Info(kind)
	if !known {
		return schema.GroupVersionResource{}, fmt.Errorf("unknown kind %q", kind)
	}
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Plural}, nil
}

// watches keep the objects of some kinds as the API server has them, as long as their context lasts.
type watches struct {
	client  dynamic.Interface
	changed func()
	group   *errgroup.Group
	ctx     context.Context

	mu   sync.Mutex
	list map[api.Kind]cache.SharedIndexInformer
}

func newWatches(ctx context.Context, client dynamic.Interface, changed func()) *watches {
	group, ctx := errgroup.WithContext(ctx)
	return &watches{client: client, changed: changed, group: group, ctx: ctx, list: map[api.Kind]cache.SharedIndexInformer{}}
}

// wait ends when everything that the watches started has.
func (w *watches) wait() { _ = w.group.Wait() }

// want watches a kind, if it is not watched yet.
func (w *watches) want(kind api.Kind) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list[kind] != nil {
		return nil
	}
	gvr, err := resource(kind)
	if err != nil {
		return err
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(w.client, gvr, metav1.NamespaceAll, 0, nil, nil).Informer()
	err = errors.Join(
		informer.SetTransform(func(o any) (any, error) { return trimmed(kind, o) }),
		// What is refused or cut off is tried again, and the source of config, which reads the same objects, says so.
		informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}),
	)
	if err != nil {
		return err
	}
	tell := func() { w.changed() }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(_, _ any) { tell() },
	}); err != nil {
		return err
	}
	w.list[kind] = informer
	w.group.Go(func() error { informer.RunWithContext(w.ctx); return nil })
	return nil
}

// trimmed keeps of an object what an object has. What is trimmed already stays.
func trimmed(kind api.Kind, o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	return newObject(kind, u), nil
}

func newObject(kind api.Kind, u *unstructured.Unstructured) *object {
	status, _, _ := unstructured.NestedMap(u.Object, "status") // one of another form says nothing
	return &object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), Generation: u.GetGeneration(), ResourceVersion: u.GetResourceVersion(),
		},
		kind: kind, revision: u.GetLabels()[label.IoIstioRev.Name], status: status,
	}
}

// each calls f with every object of the kinds that have been listed.
func (w *watches) each(f func(*object)) {
	w.mu.Lock()
	list := maps.Clone(w.list)
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
