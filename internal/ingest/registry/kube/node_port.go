package kube

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// reachedByNodes says whether a Service is one of type NodePort to which nodes lead from outside: a gateway where there are no
// load balancers. The annotation traffic.istio.io/nodeSelector says which nodes.
func reachedByNodes(service *config.Config) bool {
	_, asked := service.Annotations[annotation.TrafficNodeSelector.Name]
	return asked && config.Spec[*corev1.Service](service).Spec.Type == corev1.ServiceTypeNodePort
}

// nodeSelectorOf reads which nodes lead to a Service: labels, in JSON. None stand for all nodes. One that cannot be read
// selects no node.
func nodeSelectorOf(service *config.Config, wrong *problems) (selector labels.Selector, asked bool) {
	if !reachedByNodes(service) {
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

// nodeAddresses gives the external addresses of the nodes that the selector chooses, sorted, each once.
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

// externalIP gives a node's first external IP, "" if it has none.
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

// nodePorts says under which port each port of a Service is reached on nodes.
func nodePorts(ports []corev1.ServicePort) map[uint32]uint32 {
	all := make(map[uint32]uint32, len(ports))
	for _, p := range ports {
		if p.NodePort > 0 && p.NodePort <= 65535 && p.Port > 0 {
			all[uint32(p.Port)] = uint32(p.NodePort)
		}
	}
	return all
}
