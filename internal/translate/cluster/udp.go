package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// udpInput is everything that the cluster of a UDP port depends on.
type udpInput struct{ OutboundInput }

// UDPClusters returns the clusters to which the UDP listeners of a gateway forward datagrams
// (destination.UDPShares of the first server of each), without duplicates. UDP ports that no
// listener refers to have no cluster. It returns nil for proxies that are not gateways.
func (g *Generator) UDPClusters(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	var list []*resource.Resource
	seen := map[mesh.ClusterName]bool{}
	for _, l := range v.Gateway().Listeners {
		if !l.UDP {
			continue
		}
		_, shares := destination.UDPShares(v, l.Servers[0])
		for _, s := range shares {
			if s.Cluster.Host != "" && !seen[s.Cluster] {
				seen[s.Cluster] = true
				list = append(list, g.udp.Get(g.udpInput(v, s.Cluster)))
			}
		}
	}
	return list
}

// udpInput returns the input of the UDP cluster n, whose service must be in the View.
func (g *Generator) udpInput(v *view.View, n mesh.ClusterName) udpInput {
	return udpInput{g.complete(v, OutboundInput{
		Service:  v.Service(n.Host),
		Port:     n.Port,
		UDP:      true,
		Subset:   n.Subset,
		Rule:     v.DestinationRule(n.Host),
		Settings: v.Settings,
		Proxy:    ProxyOf(v),
	})}
}

// encodeUDP returns the outbound cluster of the UDP port, encoded. It has no TLS and HTTP options,
// which have no effect on datagrams.
func encodeUDP(in udpInput) *resource.Resource {
	c := Outbound(in.OutboundInput)
	c.TransportSocket, c.TransportSocketMatches, c.TypedExtensionProtocolOptions = nil, nil, nil
	return encodeCluster(c, objectKeys(in.Service, in.Rule)...)
}

// UDPTouched reports whether a change may alter the result of UDPClusters; s is the snapshot after
// the change. It returns true if SNIDNATTouched does, and for changes of VirtualServices with TCP
// routes. It always returns false for Views of proxies that are not gateways.
func UDPTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if v.Key.Type != mesh.RouterProxy {
		return false
	}
	if SNIDNATTouched(v, s, d) {
		return true
	}
	for k := range d.Configs {
		if k.Kind == api.VirtualService && (hasTCP(v.Snapshot.Config(k)) || hasTCP(s.Config(k))) {
			return true
		}
	}
	return false
}

// hasTCP reports whether a VirtualService, which may be nil, has TCP routes.
func hasTCP(c *config.Config) bool {
	return c != nil && len(config.Spec[*networking.VirtualService](c).GetTcp()) > 0
}
