package webhook

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
)

// Nodes watches which nodes run native sidecars.
type Nodes struct {
	watch
	nodes cache.SharedIndexInformer
}

// NewNodes makes the watch. It asks the API server nothing.
func NewNodes(client kubernetes.Interface) *Nodes {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(object any) (any, error) {
		n, ok := object.(*corev1.Node)
		if !ok {
			return object, nil
		}
		small := &corev1.Node{}
		small.Name, small.ResourceVersion = n.Name, n.ResourceVersion
		small.Status.NodeInfo.KubeletVersion = n.Status.NodeInfo.KubeletVersion
		return small, nil
	}))
	return &Nodes{watch: watch{factory}, nodes: factory.Core().V1().Nodes().Informer()}
}

// Native says whether a node runs native sidecars; if it is not known, whether all nodes do: a pod may come to any. Without any
// node, which is before the first list, it says no.
func (n *Nodes) Native(node string) bool {
	if object, found, err := n.nodes.GetStore().GetByKey(node); node != "" && found && err == nil {
		return native(object)
	}
	all := n.nodes.GetStore().List()
	for _, object := range all {
		if !native(object) {
			return false
		}
	}
	return len(all) > 0
}

func native(object any) bool {
	n, ok := object.(*corev1.Node)
	return ok && inject.NativeSidecars(n.Status.NodeInfo.KubeletVersion)
}
