package mesh

import (
	"cmp"
	"net/netip"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// NetworkGateway is one address by which the endpoints of a network are reached from other networks.
type NetworkGateway struct {
	Network Network
	// Cluster is where the gateway runs, "" if that is not known. Endpoints of that cluster are reached through it before others.
	Cluster ClusterID
	// Address is an IP.
	Address string
	Port    uint32
}

// DefaultNetworkGatewayPort is the port of gateways that are found by their label.
const DefaultNetworkGatewayPort = 15443

// Compare orders gateways by network, address and port.
func (g NetworkGateway) Compare(o NetworkGateway) int {
	return cmp.Or(cmp.Compare(g.Network, o.Network), cmp.Compare(g.Address, o.Address), cmp.Compare(g.Port, o.Port), cmp.Compare(g.Cluster, o.Cluster))
}

// NetworkPlan is what MeshNetworks says about the endpoints of one cluster that do not say themselves which network they are in.
// The zero value says nothing.
type NetworkPlan struct {
	cluster Network // of the whole cluster (fromRegistry)
	ranges  []networkRange
}

type networkRange struct {
	prefix  netip.Prefix
	network Network
}

// NewNetworkPlan reads MeshNetworks. The API has ranges not overlap and a registry be in one network; where they do not hold to
// it, the network whose name sorts first counts.
func NewNetworkPlan(all *meshconfig.MeshNetworks, cluster ClusterID) NetworkPlan {
	var p NetworkPlan
	for network, of := range all.GetNetworks() {
		for _, e := range of.GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" && r == string(cluster) && (p.cluster == "" || Network(network) < p.cluster) {
				p.cluster = Network(network)
			}
			if prefix, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
				p.ranges = append(p.ranges, networkRange{prefix.Masked(), Network(network)})
			}
		}
	}
	slices.SortFunc(p.ranges, func(a, b networkRange) int {
		return cmp.Or(cmp.Compare(a.network, b.network), a.prefix.Compare(b.prefix))
	})
	return p
}

// Equal says that two plans give the same for every address.
func (p NetworkPlan) Equal(o NetworkPlan) bool {
	return p.cluster == o.cluster && slices.Equal(p.ranges, o.ranges)
}

// Of gives the network of an address, "" if nothing is said about it.
func (p NetworkPlan) Of(address string) Network {
	if p.cluster != "" || len(p.ranges) == 0 {
		return p.cluster
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap()
	for _, r := range p.ranges {
		if r.prefix.Contains(addr) {
			return r.network
		}
	}
	return ""
}
