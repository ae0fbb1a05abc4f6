package ingress

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gatewayNodes says on which nodes gateways run, and how those are reached from outside: where the mesh names no Service of the
// gateways, Ingresses are found there.
type gatewayNodes struct {
	pods  map[name]gatewayPod // of the gateways' namespace
	nodes map[string][]string // external IPs of nodes
}

// gatewayPod is a pod that may be a gateway.
type gatewayPod struct {
	istio, node string // the label, and where it runs
	running     bool
}

func newGatewayNodes() gatewayNodes {
	return gatewayNodes{pods: map[name]gatewayPod{}, nodes: map[string][]string{}}
}

// setPod takes up a pod of the gateways' namespace, nil if it is gone.
func (g gatewayNodes) setPod(k name, object *config.Config) {
	if object == nil {
		delete(g.pods, k)
		return
	}
	p := config.Spec[*corev1.Pod](object)
	g.pods[k] = gatewayPod{p.Labels["istio"], p.Spec.NodeName, p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil}
}

// setNode takes up a node, nil if it is gone.
func (g gatewayNodes) setNode(node string, object *config.Config) {
	var external []string
	if object != nil {
		for _, a := range config.Spec[*corev1.Node](object).Status.Addresses {
			if a.Type == corev1.NodeExternalIP {
				external = append(external, a.Address)
			}
		}
	}
	if len(external) > 0 {
		g.nodes[node] = external
	} else {
		delete(g.nodes, node)
	}
}

// addresses gives the external IPs of all nodes on which a gateway runs, sorted.
func (g gatewayNodes) addresses(selected string) []string {
	all := map[string]struct{}{}
	for _, p := range g.pods {
		if p.running && p.istio == selected {
			for _, a := range g.nodes[p.node] {
				all[a] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// take takes up an event about a Pod or Node, and says whether it was one.
func (g gatewayNodes) take(kind api.Kind, k name, namespace string, object *config.Config) bool {
	switch {
	case kind == api.Node:
		g.setNode(k.Name, object)
	case kind == api.Pod && k.Namespace == namespace:
		g.setPod(k, object)
	default:
		return false
	}
	return true
}

// NodeAddresses gives the addresses of Ingresses where the mesh names no Service of the gateways: external IPs of the nodes that run
// one. Anybody may ask; the list must not be changed.
func (c *Converter) NodeAddresses() []string {
	if list := c.nodeAddresses.Load(); list != nil {
		return *list
	}
	return nil
}

// showNodes brings what NodeAddresses gives up to date.
func (c *Converter) showNodes() {
	list := c.nodes.addresses(c.settings.gateways)
	same := slices.Equal(list, c.NodeAddresses())
	c.nodeAddresses.Store(&list)
	if !same && c.options.Moved != nil {
		c.options.Moved()
	}
}
