package status

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// informerOptions configure an informer. The zero values of the optional fields select all objects.
type informerOptions struct {
	// resource returns the resource to list or watch, or an error. It is called for each request, so
	// that the version follows the definition of the kind.
	resource func(context.Context) (schema.GroupVersionResource, error)
	// selector is a label selector.
	selector string
	// trim returns the part of an object that the informer stores.
	trim cache.TransformFunc
	// handler is called for each change. Its functions may be nil.
	handler cache.ResourceEventHandlerFuncs
}

// newInformer returns an informer for the objects of a resource in all namespaces. It sends no
// request until it runs. It retries failed watches, and resources that are not known yet, without
// logging them, because the configuration source watches the same API server and reports that it
// cannot be reached. It returns an error if the informer cannot be set up.
func newInformer(client dynamic.Interface, o informerOptions) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, list metav1.ListOptions) (runtime.Object, error) {
			resource, err := o.resource(ctx)
			if err != nil {
				return nil, err
			}
			list.LabelSelector = o.selector
			return client.Resource(resource).List(ctx, list)
		},
		WatchFuncWithContext: func(ctx context.Context, list metav1.ListOptions) (watch.Interface, error) {
			resource, err := o.resource(ctx)
			if err != nil {
				return nil, err
			}
			list.LabelSelector = o.selector
			return client.Resource(resource).Watch(ctx, list)
		},
	}, client), &unstructured.Unstructured{}, 0, nil)
	_, err := informer.AddEventHandler(o.handler)
	return informer, errors.Join(err,
		informer.SetTransform(o.trim),
		informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}),
	)
}
