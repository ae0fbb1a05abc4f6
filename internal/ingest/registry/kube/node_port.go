package kube

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// isReachedByNodes reports whether a Service of type NodePort has the annotation
// traffic.istio.io/nodeSelector. Such a Service is a gateway that is reached through nodes, in
// clusters without load balancers.
func isReachedByNodes(service *config.Config) bool {
	_, asked := service.Annotations[annotation.TrafficNodeSelector.Name]
	return asked && config.Spec[*corev1.Service](service).Spec.Type == corev1.ServiceTypeNodePort
}

// nodeSelectorOf parses the annotation traffic.istio.io/nodeSelector of a Service: a JSON object of
// labels, where empty selects all nodes. Invalid JSON selects no node and is reported in wrong.
// asked is false, and the selector nil, if the Service is not reached through nodes.
func nodeSelectorOf(service *config.Config, wrong *problems) (selector labels.Selector, asked bool) {
	if !isReachedByNodes(service) {
		return nil, false
	}
	text := service.Annotations[annotation.TrafficNodeSelector.Name]
	var want labels.Set
	if text == "" {
		return labels.Everything(), true
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		wrong.add(config.Error, "metadata.annotations["+annotation.TrafficNodeSelector.Name+"]",
			"is not a JSON object of labels; no node is selected, and the service has no address outside the cluster")
		return labels.Nothing(), true
	}
	return labels.SelectorFromSet(want), true
}

// nodeAddresses returns the external addresses of the nodes that match the selector, sorted and
// without duplicates. Nodes without an external address are left out.
func (c *Converter) nodeAddresses(selector labels.Selector) []string {
	var list []string
	for _, n := range c.nodes {
		if n.external != "" && selector.Matches(labels.Set(n.labels)) {
			list = append(list, n.external)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// externalIP returns the first valid external IP of a node, or "".
func externalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeExternalIP {
			continue
		}
		if ip, ok := canonicalIP(a.Address); ok {
			return ip
		}
	}
	return ""
}

// nodePorts returns the node port of each port of a Service, by number. Ports without a valid node
// port are left out.
func nodePorts(ports []corev1.ServicePort) map[uint32]uint32 {
	all := make(map[uint32]uint32, len(ports))
	for _, p := range ports {
		if p.NodePort > 0 && p.NodePort <= 65535 && p.Port > 0 {
			all[uint32(p.Port)] = uint32(p.NodePort)
		}
	}
	return all
}
