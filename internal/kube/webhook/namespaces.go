package webhook

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
)

// namespaceTimeout bounds the request for a namespace that is not cached yet.
const namespaceTimeout = 2 * time.Second

// Namespaces watches the user ID ranges that OpenShift assigns to namespaces.
type Namespaces struct {
	informerRunner
	client     kubernetes.Interface
	namespaces cache.SharedIndexInformer
}

// NewNamespaces returns a Namespaces, whose cache has only the annotations that ProxyUsers needs.
// It sends no request before Run.
func NewNamespaces(client kubernetes.Interface) *Namespaces {
	factory := informers.NewSharedInformerFactoryWithOptions(
		client,
		0,
		informers.WithTransform(func(object any) (any, error) {
			n, ok := object.(*corev1.Namespace)
			if !ok {
				return object, nil
			}
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: n.Name, ResourceVersion: n.ResourceVersion, Annotations: inject.UserAnnotations(n.Annotations),
			}}, nil
		}),
	)
	return &Namespaces{
		informerRunner: informerRunner{factory},
		client:         client,
		namespaces:     factory.Core().V1().Namespaces().Informer(),
	}
}

// ProxyUsers returns the user and group IDs for proxies in a namespace, or the zero value if the
// namespace has none. A namespace that the informer does not have with IDs is read from the API
// server, because a pod with default IDs would be rejected. If that fails or takes longer than
// namespaceTimeout, it returns the zero value.
func (n *Namespaces) ProxyUsers(namespace string) inject.Users {
	if object, found, err := n.namespaces.GetStore().GetByKey(namespace); found && err == nil {
		if known, ok := object.(*corev1.Namespace); ok && len(known.Annotations) > 0 {
			return inject.NamespaceUsers(known.Annotations)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	// List needs no permission beyond that of the watch.
	list, err := n.client.CoreV1().Namespaces().List(
		ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, namespace).String()},
	)
	if err != nil || len(list.Items) == 0 {
		return inject.Users{}
	}
	return inject.NamespaceUsers(list.Items[0].Annotations)
}
