package mesh

import (
	"cmp"
	"net/netip"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// NetworkGateway is an address through which the endpoints of a network are reached from other
// networks.
type NetworkGateway struct {
	Network Network
	// Cluster is the cluster of the gateway, "" if unknown. Endpoints of that cluster are reached
	// through it in preference to others.
	Cluster ClusterID
	// Address is an IP address. In a GatewayObject it may also be a DNS name, which is resolved later.
	Address string
	Port    uint32
}

// DefaultNetworkGatewayPort is the port of gateways that are found by their label, unless another
// label names one.
const DefaultNetworkGatewayPort = 15443

// Compare orders gateways by network, address, port and cluster.
func (g NetworkGateway) Compare(o NetworkGateway) int {
	return cmp.Or(
		cmp.Compare(g.Network, o.Network),
		cmp.Compare(g.Address, o.Address),
		cmp.Compare(g.Port, o.Port),
		cmp.Compare(g.Cluster, o.Cluster),
	)
}

// NetworkPlan assigns networks to those endpoints of one cluster that declare none themselves,
// according to MeshNetworks. The zero value assigns none.
type NetworkPlan struct {
	cluster Network // of the whole cluster (fromRegistry)
	ranges  []networkRange
}

type networkRange struct {
	prefix  netip.Prefix
	network Network
}

// NewNetworkPlan returns the plan for a cluster, with the ranges of all networks; all may be nil.
// The API forbids overlapping ranges and registries in several networks; if they occur, the network
// whose name sorts first is used. Invalid ranges are ignored.
func NewNetworkPlan(all *meshconfig.MeshNetworks, cluster ClusterID) NetworkPlan {
	var p NetworkPlan
	for network, of := range all.GetNetworks() {
		for _, e := range of.GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" && r == string(cluster) &&
				(p.cluster == "" || Network(network) < p.cluster) {
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

// NetworkRanges returns the valid ranges of all networks (fromCidr), sorted and without duplicates;
// all may be nil.
func NetworkRanges(all *meshconfig.MeshNetworks) []netip.Prefix {
	var list []netip.Prefix
	for _, of := range all.GetNetworks() {
		for _, e := range of.GetEndpoints() {
			if prefix, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
				list = append(list, prefix.Masked())
			}
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// Equal reports whether both plans have the same network of the cluster and the same ranges in the
// same order.
func (p NetworkPlan) Equal(o NetworkPlan) bool {
	return p.cluster == o.cluster && slices.Equal(p.ranges, o.ranges)
}

// Of returns the network of an address, or "" if none is assigned. A network of the whole cluster
// precedes ranges. A DNS name is in no range. An address that cannot be parsed is in no range
// either.
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
