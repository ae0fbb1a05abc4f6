package status

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// informerOptions configure an informer. The zero values of the optional fields select all objects.
type informerOptions struct {
	resource schema.GroupVersionResource
	// selector is a label selector.
	selector string
	// trim returns the part of an object that the informer stores.
	trim cache.TransformFunc
	// handler is called for each change. Its functions may be nil.
	handler cache.ResourceEventHandlerFuncs
}

// newInformer returns an informer for the objects of a resource in all namespaces. It sends no
// request until it runs. It retries failed watches without logging them, because the configuration
// source watches the same API server and reports that it cannot be reached. It returns an error if
// the informer cannot be set up.
func newInformer(client dynamic.Interface, o informerOptions) (cache.SharedIndexInformer, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, o.resource, metav1.NamespaceAll, 0, nil,
		func(list *metav1.ListOptions) { list.LabelSelector = o.selector }).Informer()
	_, err := informer.AddEventHandler(o.handler)
	return informer, errors.Join(err,
		informer.SetTransform(o.trim),
		informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}),
	)
}
