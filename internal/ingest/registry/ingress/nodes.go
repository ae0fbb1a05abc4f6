package ingress

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gatewayNodes tracks the nodes on which gateways run and their external IPs. If the mesh names no
// Service of the gateways, these are the addresses of Ingresses.
type gatewayNodes struct {
	pods  map[name]gatewayPod // in the gateways' namespace
	nodes map[string][]string // external IPs of nodes
}

// gatewayPod is a pod that may be a gateway.
type gatewayPod struct {
	istio, node string // the value of the label "istio", and the node of the pod
	running     bool
}

// newGatewayNodes returns gatewayNodes without pods and nodes.
func newGatewayNodes() gatewayNodes {
	return gatewayNodes{pods: map[name]gatewayPod{}, nodes: map[string][]string{}}
}

// setPod stores a pod of the gateways' namespace, or deletes it if object is nil. Of the pod it
// keeps the label "istio", the node and whether it runs.
func (g gatewayNodes) setPod(k name, object *config.Config) {
	if object == nil {
		delete(g.pods, k)
		return
	}
	p := config.Spec[*corev1.Pod](object)
	g.pods[k] = gatewayPod{
		p.Labels["istio"],
		p.Spec.NodeName,
		p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil,
	}
}

// setNode stores the external IPs of a node, or deletes them if object is nil. A node without one
// is deleted as well.
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

// addresses returns the external IPs of all nodes with a running gateway, sorted. selected is the
// value of the gateways' label "istio".
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

// applyEvent stores a Node, or a Pod of the given namespace, or deletes it if object is nil. It
// returns false, and does nothing, for other kinds and other namespaces.
func (g gatewayNodes) applyEvent(kind api.Kind, k name, namespace string, object *config.Config) bool {
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

// NodeAddresses returns the external IPs of the nodes that run a gateway, sorted, nil before any is
// known. They are the addresses of Ingresses if the mesh names no Service of the gateways. It is
// safe for concurrent use. Callers must not modify the list.
func (c *Converter) NodeAddresses() []string {
	if list := c.nodeAddresses.Load(); list != nil {
		return *list
	}
	return nil
}

// updateNodeAddresses updates the result of NodeAddresses and calls Options.OnNodeAddressesChanged
// if it changed.
func (c *Converter) updateNodeAddresses() {
	list := c.nodes.addresses(c.settings.gateways)
	same := slices.Equal(list, c.NodeAddresses())
	c.nodeAddresses.Store(&list)
	if !same && c.options.OnNodeAddressesChanged != nil {
		c.options.OnNodeAddressesChanged()
	}
}
