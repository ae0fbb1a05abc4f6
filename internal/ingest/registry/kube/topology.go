package kube

import (
	"cmp"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// node contains the parts of a Node that the conversion needs: its locality, and for gateways that
// are reached through nodes, its address and labels.
type node struct {
	locality mesh.Locality
	external string // the first external IP, or ""
	labels   map[string]string
}

// setNode stores a Node, or deletes it if object is nil. It marks the pods on it, with their
// slices, if its locality changed. It marks the Services that are reached through nodes if its
// address or labels changed, or if it is new or deleted.
func (c *Converter) setNode(name string, object *config.Config) {
	old, known := c.nodes[name]
	var now node
	if object == nil {
		delete(c.nodes, name)
	} else {
		now = node{nodeLocality(object.Labels), externalIP(config.Spec[*corev1.Node](object)), object.Labels}
		c.nodes[name] = now
	}
	if old.locality != now.locality {
		for k := range c.podsOn.Values(name) {
			c.markPod(k, c.pods[k])
		}
	}
	if !known || object == nil || old.external != now.external || !maps.Equal(old.labels, now.labels) {
		c.dirtyServices.addAll(maps.Keys(c.onNodes))
	}
}

// nodeLocality returns the locality in the labels of a node, with empty parts for missing labels.
// For region and zone the older labels of Kubernetes (failure-domain.beta.kubernetes.io) apply if
// the present ones are missing.
func nodeLocality(labels map[string]string) mesh.Locality {
	return mesh.Locality{
		Region:  cmp.Or(labels[corev1.LabelTopologyRegion], labels[corev1.LabelFailureDomainBetaRegion]),
		Zone:    cmp.Or(labels[corev1.LabelTopologyZone], labels[corev1.LabelFailureDomainBetaZone]),
		SubZone: labels[label.TopologySubzone.Name],
	}
}

// localityOf returns the locality of a pod with these labels: of the label
// topology.istio.io/locality, else of the label istio-locality, else of its node. In a label, "."
// separates the parts if there is no "/". It is zero if none is known.
func (c *Converter) localityOf(labels map[string]string, node string) mesh.Locality {
	const old = "istio-locality"
	if own := cmp.Or(labels[label.TopologyLocality.Name], labels[old]); own != "" {
		if !strings.Contains(own, "/") {
			own = strings.ReplaceAll(own, ".", "/") // label values cannot contain a "/"
		}
		return mesh.ParseLocality(own)
	}
	return c.nodes[node].locality
}

// networkOf returns the network of an address: by the pod's labels, else the cluster's network,
// else the network that MeshNetworks assigns to the cluster or the address. It returns "" if none
// is known.
func (c *Converter) networkOf(labels map[string]string, address string) mesh.Network {
	return cmp.Or(mesh.Network(labels[label.TopologyNetwork.Name]), c.network, c.networks.Of(address))
}
