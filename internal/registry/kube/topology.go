package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
)

// setNode takes up a Node, nil if it is gone. All that counts of it is where it is.
func (c *Converter) setNode(node string, now *config.Config) {
	var at mesh.Locality
	if now != nil {
		at = nodeLocality(now.Labels)
	}
	if at == c.nodes[node] {
		return
	}
	if at == (mesh.Locality{}) {
		delete(c.nodes, node)
	} else {
		c.nodes[node] = at
	}
	for k := range c.podsOn[node] {
		c.touchPod(k, c.pods[k])
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
	return c.nodes[node]
}

// networkOf says which network an address is in: the one of the pod's label, else of the cluster, else the one that
// MeshNetworks puts the cluster or the address in.
func (c *Converter) networkOf(labels map[string]string, address string) mesh.Network {
	return cmp.Or(mesh.Network(labels[label.TopologyNetwork.Name]), c.network, c.networks.of(address))
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

// networks is what MeshNetworks says about the endpoints of one cluster.
type networks struct {
	cluster mesh.Network // of the whole cluster (fromRegistry)
	ranges  []networkRange
}

type networkRange struct {
	prefix  netip.Prefix
	network mesh.Network
}

// readNetworks reads MeshNetworks. The API has ranges not overlap and a registry be in one network; where they do not
// hold to it, the network whose name sorts first counts.
func readNetworks(all *meshconfig.MeshNetworks, cluster mesh.ClusterID) networks {
	var n networks
	for network, of := range all.GetNetworks() {
		for _, e := range of.GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" && r == string(cluster) && (n.cluster == "" || mesh.Network(network) < n.cluster) {
				n.cluster = mesh.Network(network)
			}
			if p, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
				n.ranges = append(n.ranges, networkRange{p.Masked(), mesh.Network(network)})
			}
		}
	}
	slices.SortFunc(n.ranges, func(a, b networkRange) int {
		return cmp.Or(cmp.Compare(a.network, b.network), a.prefix.Compare(b.prefix))
	})
	return n
}

func (n networks) equal(o networks) bool {
	return n.cluster == o.cluster && slices.Equal(n.ranges, o.ranges)
}

func (n networks) of(address string) mesh.Network {
	if n.cluster != "" || len(n.ranges) == 0 {
		return n.cluster
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap()
	for _, r := range n.ranges {
		if r.prefix.Contains(addr) {
			return r.network
		}
	}
	return ""
}
