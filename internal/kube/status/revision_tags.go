package status

import (
	"context"
	"slices"

	"istio.io/api/label"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// revisionTags watches the tags of revisions: MutatingWebhookConfigurations with the label
// istio.io/tag, whose label istio.io/rev is the tagged revision.
type revisionTags struct {
	informer cache.SharedIndexInformer
}

// newRevisionTags returns the revision tags, which are MutatingWebhookConfigurations with the label
// istio.io/tag. changed is called after each change. It sends no request. It returns an error if
// the informer cannot be set up.
func newRevisionTags(client dynamic.Interface, changed func()) (revisionTags, error) {
	informer, err := newInformer(client, informerOptions{
		resource: func(context.Context) (schema.GroupVersionResource, error) {
			return schema.GroupVersionResource{
				Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
			}, nil
		},
		selector: label.IoIstioTag.Name,
		trim:     trimTag,
		handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(_, _ any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	return revisionTags{informer}, err
}

// run starts the watch. The returned function blocks until it has ended after ctx.
func (t revisionTags) run(ctx context.Context) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.informer.RunWithContext(ctx)
	}()
	return func() { <-done }
}

// has reports whether a MutatingWebhookConfiguration has the labels istio.io/tag with this tag and
// istio.io/rev with the revision. It returns false until the tags have been read.
func (t revisionTags) has(tag, revision string) bool {
	return slices.ContainsFunc(t.informer.GetStore().List(), func(o any) bool {
		u, ok := o.(*unstructured.Unstructured)
		return ok && u.GetLabels()[label.IoIstioTag.Name] == tag && u.GetLabels()[label.IoIstioRev.Name] == revision
	})
}

// trimTag returns a webhook configuration with only its identity and its labels. Objects of other
// types are returned as they are.
func trimTag(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	trimmed := &unstructured.Unstructured{Object: map[string]any{}}
	trimmed.SetGroupVersionKind(u.GroupVersionKind())
	trimmed.SetName(u.GetName())
	trimmed.SetUID(u.GetUID())
	trimmed.SetResourceVersion(u.GetResourceVersion())
	trimmed.SetLabels(u.GetLabels())
	return trimmed, nil
}
