package webhook

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
)

// Nodes watches which nodes support native sidecars.
type Nodes struct {
	informerRunner
	nodes cache.SharedIndexInformer
}

// NewNodes returns a Nodes, whose cache has only the nodes' names and kubelet versions. It sends no
// request before Run.
func NewNodes(client kubernetes.Interface) *Nodes {
	factory := informers.NewSharedInformerFactoryWithOptions(
		client,
		0,
		informers.WithTransform(func(object any) (any, error) {
			n, ok := object.(*corev1.Node)
			if !ok {
				return object, nil
			}
			small := &corev1.Node{}
			small.Name, small.ResourceVersion = n.Name, n.ResourceVersion
			small.Status.NodeInfo.KubeletVersion = n.Status.NodeInfo.KubeletVersion
			return small, nil
		}),
	)
	return &Nodes{informerRunner: informerRunner{factory}, nodes: factory.Core().V1().Nodes().Informer()}
}

// HasNativeSidecars reports whether a node supports native sidecars. For an unknown or empty node
// name it reports whether all nodes do, because the pod may be scheduled to any. It returns false
// while no node is known.
func (n *Nodes) HasNativeSidecars(node string) bool {
	if object, found, err := n.nodes.GetStore().GetByKey(node); node != "" && found && err == nil {
		return supportsNativeSidecars(object)
	}
	all := n.nodes.GetStore().List()
	for _, object := range all {
		if !supportsNativeSidecars(object) {
			return false
		}
	}
	return len(all) > 0
}

// supportsNativeSidecars reports whether the object is a Node whose kubelet supports native
// sidecars.
func supportsNativeSidecars(object any) bool {
	n, ok := object.(*corev1.Node)
	return ok && inject.SupportsNativeSidecars(n.Status.NodeInfo.KubeletVersion)
}
