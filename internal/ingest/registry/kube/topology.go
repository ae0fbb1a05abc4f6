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

// node is what of a Node counts: where it is, and for gateways that are reached by way of nodes, where and whether it is one.
type node struct {
	locality mesh.Locality
	external string // its first external IP, "" if it has none
	labels   map[string]string
}

// setNode takes up a Node, nil if it is gone.
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
		for k := range c.podsOn.Of(name) {
			c.touchPod(k, c.pods[k])
		}
	}
	if !known || object == nil || old.external != now.external || !maps.Equal(old.labels, now.labels) {
		c.dirtyServices.addAll(maps.Keys(c.onNodes))
	}
}

func nodeLocality(labels map[string]string) mesh.Locality {
	return mesh.Locality{
		Region:  cmp.Or(labels[corev1.LabelTopologyRegion], labels[corev1.LabelFailureDomainBetaRegion]),
		Zone:    cmp.Or(labels[corev1.LabelTopologyZone], labels[corev1.LabelFailureDomainBetaZone]),
		SubZone: labels[label.TopologySubzone.Name],
	}
}

// localityOf says where a pod is: where its label says, else where its node is.
func (c *Converter) localityOf(labels map[string]string, node string) mesh.Locality {
	const old = "istio-locality"
	if own := cmp.Or(labels[label.TopologyLocality.Name], labels[old]); own != "" {
		if !strings.Contains(own, "/") {
			own = strings.ReplaceAll(own, ".", "/") // a label's value cannot have a "/" in it
		}
		return mesh.ParseLocality(own)
	}
	return c.nodes[node].locality
}

// networkOf says which network an address is in: the one of the pod's label, else of the cluster, else the one that
// MeshNetworks puts the cluster or the address in.
func (c *Converter) networkOf(labels map[string]string, address string) mesh.Network {
	return cmp.Or(mesh.Network(labels[label.TopologyNetwork.Name]), c.network, c.networks.Of(address))
}

// topologyLabels are the labels of an endpoint: its own, and where it is, so that subsets can be made by cluster, zone
// or network.
func (c *Converter) topologyLabels(own map[string]string, at mesh.Locality, network mesh.Network, node string) map[string]string {
	all := make(map[string]string, len(own)+6)
	for k, v := range own {
		all[k] = v
	}
	for _, l := range [...]struct{ key, value string }{
		{corev1.LabelTopologyRegion, at.Region},
		{corev1.LabelTopologyZone, at.Zone},
		{label.TopologySubzone.Name, at.SubZone},
		{label.TopologyCluster.Name, string(c.options.Cluster)},
		{label.TopologyNetwork.Name, string(network)},
		{corev1.LabelHostname, node},
	} {
		if l.value != "" {
			all[l.key] = l.value
		}
	}
	return all
}
