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

// namespacePatience bounds how long a pod waits for its namespace to be read.
const namespacePatience = 2 * time.Second

// Namespaces watches whom OpenShift has set aside for the pods of each namespace.
type Namespaces struct {
	watch
	client     kubernetes.Interface
	namespaces cache.SharedIndexInformer
}

// NewNamespaces makes the watch. It asks the API server nothing.
func NewNamespaces(client kubernetes.Interface) *Namespaces {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(object any) (any, error) {
		n, ok := object.(*corev1.Namespace)
		if !ok {
			return object, nil
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, ResourceVersion: n.ResourceVersion, Annotations: inject.UserAnnotations(n.Annotations),
		}}, nil
	}))
	return &Namespaces{watch: watch{factory}, client: client, namespaces: factory.Core().V1().Namespaces().Informer()}
}

// Users gives whom the proxies of a namespace run as, zero if nobody says so. A namespace that is newer than the watch is asked for
// by itself: with the usual user its pod would be refused.
func (n *Namespaces) Users(namespace string) inject.Users {
	if object, found, err := n.namespaces.GetStore().GetByKey(namespace); found && err == nil {
		if known, ok := object.(*corev1.Namespace); ok && len(known.Annotations) > 0 {
			return inject.UsersOf(known.Annotations)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), namespacePatience)
	defer cancel()
	// A list of one takes no other right than the watch does.
	list, err := n.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, namespace).String()})
	if err != nil || len(list.Items) == 0 {
		return inject.Users{}
	}
	return inject.UsersOf(list.Items[0].Annotations)
}
