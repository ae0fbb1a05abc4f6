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

// inView says whether the caller wants to see a network at all (ISTIO_META_REQUESTED_NETWORK_VIEW). Endpoints of which the network
// is not known are seen by everybody.
func (c Caller) inView(n mesh.Network) bool {
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

// behind gives the gateways through which the caller reaches an endpoint, and whether it reaches it directly instead.
//
// An endpoint is reached directly in the caller's own network, in one that is not known, and in one that has no gateways. A
// caller that does not know its network goes through gateways wherever there are some. Where there are some of which no address is
// known, there is no way at present.
func (c Caller) behind(e *mesh.Endpoint) (gateways []mesh.NetworkGateway, direct bool) {
	if e.Network == "" || e.Network == c.Network {
		return nil, true
	}
	gateways = c.Gateways.Of(e.Network, e.Cluster)
	return gateways, len(gateways) == 0 && !c.Gateways.Unknown(e.Network)
}

// throughGateway says that the caller reaches an endpoint by gateways.
func (c Caller) throughGateway(e *mesh.Endpoint) bool {
	gateways, _ := c.behind(e)
	return len(gateways) > 0
}

// reaches says whether the caller has an address of the gateway's family. One of which nothing is known is taken to have both.
func (c Caller) reaches(g mesh.NetworkGateway) bool {
	if c.IPv4 == c.IPv6 {
		return true
	}
	a, err := netip.ParseAddr(g.Address)
	return err == nil && a.Is4() == c.IPv4
}

// routed puts gateways in the place of the endpoints that are reached through them, each in the locality of what is behind it, and
// with its share of their weight. Gateways tell by the server name of mutual TLS where a connection is to go, so only endpoints that
// take it are reached through them; others are left out, as in Istio.
//
// Weights are scaled so that they can be divided among gateways; that makes no difference to their relations.
func (in Input) routed(groups []*group, m member) []*group {
	scale, total := uint64(in.Caller.Gateways.Scale()), 0
	for _, g := range groups {
		total += len(g.endpoints)
	}
	highest := uint64(math.MaxUint32 / max(total, 1)) // for their sum
	routed := groups[:0]
	for _, g := range groups {
		shares := map[mesh.NetworkGateway]uint64{}
		direct := &group{locality: g.locality, priority: g.priority}
		for _, e := range g.endpoints {
			weight := min(uint64(e.weight)*scale, highest)
			gateways, reached := in.Caller.behind(e.Endpoint)
			if reached {
				if e.Address != "" {
					direct.add(weighted{e.Endpoint, uint32(weight)})
				}
				continue
			}
			if !m.mutual(e.Endpoint) {
				continue
			}
			within := slices.DeleteFunc(slices.Clone(gateways), func(g mesh.NetworkGateway) bool { return !in.Caller.reaches(g) })
			for _, gw := range within {
				shares[gw] += weight / uint64(len(within))
			}
		}
		for _, gw := range slices.SortedFunc(maps.Keys(shares), mesh.NetworkGateway.Compare) {
			direct.add(weighted{gatewayEndpoint(gw), uint32(max(shares[gw], 1))})
		}
		if len(direct.endpoints) > 0 {
			routed = append(routed, direct)
		}
	}
	return routed
}

// gatewayEndpoint is a gateway as an endpoint. Of what is behind it only network and cluster are known.
func gatewayEndpoint(g mesh.NetworkGateway) *mesh.Endpoint {
	labels := map[string]string{label.TopologyNetwork.Name: string(g.Network)}
	if g.Cluster != "" {
		labels[label.TopologyCluster.Name] = string(g.Cluster)
	}
	return &mesh.Endpoint{Address: g.Address, Port: g.Port, Network: g.Network, Cluster: g.Cluster, Labels: labels, TLS: true}
}
