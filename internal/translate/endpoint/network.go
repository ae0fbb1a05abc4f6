package endpoint

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// seesNetwork reports whether the caller receives endpoints of a network. It returns true if the
// caller requested that network or none (ISTIO_META_REQUESTED_NETWORK_VIEW), and for the unknown
// network "".
func (c Caller) seesNetwork(n mesh.Network) bool {
	if c.NetworkView == "" || n == "" {
		return true
	}
	for seen := range strings.SplitSeq(c.NetworkView, ",") {
		if seen == string(n) {
			return true
		}
	}
	return false
}

// gatewaysTo returns the gateways through which the caller reaches an endpoint. direct is true,
// without gateways, if it needs none.
//
// An endpoint is direct if its network is the caller's, unknown, or without gateways. A caller with
// an unknown network uses gateways wherever there are any. If the gateways of a network have no
// known address, the endpoint is unreachable: there are no gateways and direct is false.
func (c Caller) gatewaysTo(e *mesh.Endpoint) (gateways []mesh.NetworkGateway, direct bool) {
	if e.Network == "" || e.Network == c.Network {
		return nil, true
	}
	gateways = c.Gateways.GatewaysFor(e.Network, e.Cluster)
	return gateways, len(gateways) == 0 && !c.Gateways.IsUnresolved(e.Network)
}

// throughGateway reports whether the caller reaches an endpoint through gateways whose address is
// known.
func (c Caller) throughGateway(e *mesh.Endpoint) bool {
	gateways, _ := c.gatewaysTo(e)
	return len(gateways) > 0
}

// canReach reports whether the caller has an address of the family of the gateway's address. A
// caller with both or no known families reaches all; others do not reach an address that is not an
// IP.
func (c Caller) canReach(g mesh.NetworkGateway) bool {
	if c.IPv4 == c.IPv6 {
		return true
	}
	a, err := netip.ParseAddr(g.Address)
	return err == nil && a.Is4() == c.IPv4
}

// replaceByGateways replaces endpoints that are reached through gateways by these gateways, in the
// endpoint's locality and with its share of the weight. Of these endpoints, unreachable ones and
// ones without mutual TLS are removed, because gateways forward by its server name. Gateways of an
// address family that the caller lacks and empty groups are left out; weights are scaled to be
// divisible among gateways. It overwrites the slice groups, and returns it shortened;
// in.Caller.Gateways must not be nil.
func (in Input) replaceByGateways(groups []*group, m member) []*group {
	scale, total := uint64(in.Caller.Gateways.WeightScale()), 0
	for _, g := range groups {
		total += len(g.endpoints)
	}
	highest := uint64(math.MaxUint32 / max(total, 1)) // of their sum
	routed := groups[:0]
	for _, g := range groups {
		shares := map[mesh.NetworkGateway]uint64{}
		direct := &group{locality: g.locality, priority: g.priority}
		for _, e := range g.endpoints {
			weight := min(uint64(e.weight)*scale, highest)
			gateways, reached := in.Caller.gatewaysTo(e.Endpoint)
			if reached {
				if e.Address != "" {
					direct.addEndpoint(weighted{e.Endpoint, uint32(weight)})
				}
				continue
			}
			if !m.usesMTLS(e.Endpoint) {
				continue
			}
			within := slices.DeleteFunc(
				slices.Clone(gateways),
				func(g mesh.NetworkGateway) bool { return !in.Caller.canReach(g) },
			)
			for _, gw := range within {
				shares[gw] += weight / uint64(len(within))
			}
		}
		for _, gw := range slices.SortedFunc(maps.Keys(shares), mesh.NetworkGateway.Compare) {
			direct.addEndpoint(weighted{gatewayEndpoint(gw), uint32(max(shares[gw], 1))})
		}
		if len(direct.endpoints) > 0 {
			routed = append(routed, direct)
		}
	}
	return routed
}

// gatewayEndpoint returns a gateway as an endpoint with mutual TLS. Its labels are only the network
// and cluster behind it.
func gatewayEndpoint(g mesh.NetworkGateway) *mesh.Endpoint {
	labels := map[string]string{label.TopologyNetwork.Name: string(g.Network)}
	if g.Cluster != "" {
		labels[label.TopologyCluster.Name] = string(g.Cluster)
	}
	return &mesh.Endpoint{
		Address: g.Address,
		Port:    g.Port,
		Network: g.Network,
		Cluster: g.Cluster,
		Labels:  labels,
		TLS:     true,
	}
}
