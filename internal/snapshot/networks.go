package snapshot

import (
	"slices"
	"strconv"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// NetworkGateways are the gateways by which networks are reached from others. It is a row. A nil one has none.
type NetworkGateways struct {
	all       []mesh.NetworkGateway // sorted
	byNetwork map[mesh.Network][]mesh.NetworkGateway
	byCluster map[clusterNetwork][]mesh.NetworkGateway
	// scale is the least common multiple of how many gateways there are anywhere.
	scale uint32
	// names are those of gateways that are known by name, sorted. unknown are the networks all of whose gateways are, of names
	// that have not been resolved: there is a way into them, and nobody can tell where.
	names   []string
	unknown []mesh.Network
}

type clusterNetwork struct {
	network mesh.Network
	cluster mesh.ClusterID
}

// maxScale keeps weights, of which there are 32 bits, from being scaled beyond use by odd numbers of gateways.
const maxScale = 1 << 16

// All gives the gateways, sorted. The list must not be changed.
func (g *NetworkGateways) All() []mesh.NetworkGateway {
	if g == nil {
		return nil
	}
	return g.all
}

// Of gives the gateways for the endpoints of a cluster in a network: those of that cluster, or else all of the network.
func (g *NetworkGateways) Of(network mesh.Network, cluster mesh.ClusterID) []mesh.NetworkGateway {
	if g == nil {
		return nil
	}
	if own := g.byCluster[clusterNetwork{network, cluster}]; len(own) > 0 {
		return own
	}
	return g.byNetwork[network]
}

// Unknown says that a network is reached by gateways only, of none of which the address is known.
func (g *NetworkGateways) Unknown(network mesh.Network) bool {
	return g != nil && slices.Contains(g.unknown, network)
}

// Scale is what weights are multiplied with, so that one can be divided among any of the lists of gateways without a rest.
func (g *NetworkGateways) Scale() uint32 {
	if g == nil {
		return 1
	}
	return g.scale
}

// equal says that two have the same gateways.
func (g *NetworkGateways) equal(o *NetworkGateways) bool {
	if g == nil || o == nil {
		return g == o
	}
	return slices.Equal(g.all, o.all) && slices.Equal(g.names, o.names) && slices.Equal(g.unknown, o.unknown)
}

// indexed completes g by what follows from the list of all and the names, nil if there is nothing of either.
func (g *NetworkGateways) indexed() *NetworkGateways {
	if len(g.all) == 0 && len(g.names) == 0 {
		return nil
	}
	g.byNetwork, g.byCluster, g.scale = map[mesh.Network][]mesh.NetworkGateway{}, map[clusterNetwork][]mesh.NetworkGateway{}, 1
	for _, gw := range g.all {
		g.byNetwork[gw.Network] = append(g.byNetwork[gw.Network], gw)
		k := clusterNetwork{gw.Network, gw.Cluster}
		g.byCluster[k] = append(g.byCluster[k], gw)
	}
	for _, l := range g.byNetwork {
		g.scaleTo(len(l))
	}
	for _, l := range g.byCluster {
		g.scaleTo(len(l))
	}
	return g
}

func (g *NetworkGateways) scaleTo(n int) {
	a, b := uint64(g.scale), uint64(n)
	for b != 0 {
		a, b = b, a%b
	}
	if next := uint64(g.scale) / a * uint64(n); next <= maxScale {
		g.scale = uint32(next)
	}
}

// joinNetworks finds the gateways again if services or settings that they depend on differ. A difference makes everything
// anew: gateways hardly ever change, and assignments of all services may.
func (e *edit) joinNetworks() {
	if !e.delta.All && !e.outside {
		return
	}
	now := networkGateways(e.next.Settings, e.claims.outside(), e.Builder.gateways, e.next.resolved).indexed()
	if now.equal(e.next.networks) {
		return
	}
	e.next.networks = now
	e.delta.All = true
}

// networkGateways gives all gateways, sorted, each once: those with addresses of their own in MeshNetworks, and the external
// addresses of services that are named there or have the label of a network, and those of other objects. services are what each cluster says of its own: in each
// a gateway of one name may lead to another network. Names count as the addresses that they stand for: EDS takes no names.
func networkGateways(settings *Settings, services []*mesh.Service, objects map[gatewayObjectKey]*mesh.GatewayObject, resolved map[string]*mesh.ResolvedName) *NetworkGateways {
	g := newGatewayList(resolved)
	add := g.add
	type named struct {
		network    mesh.Network
		port       uint32
		registries []string
	}
	byService := map[mesh.Hostname][]named{}
	for network, n := range settings.Networks.GetNetworks() {
		var registries []string
		for _, e := range n.GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" {
				registries = append(registries, r)
			}
		}
		for _, g := range n.GetGateways() {
			if a := g.GetAddress(); a != "" {
				add(mesh.NetworkGateway{Network: mesh.Network(network), Address: a, Port: g.GetPort()})
			}
			if host := mesh.Hostname(g.GetRegistryServiceName()); host != "" {
				byService[host] = append(byService[host], named{mesh.Network(network), g.GetPort(), registries})
			}
		}
	}
	for _, s := range services {
		for _, address := range s.External {
			if network, port := labelledGateway(s); network != "" {
				add(mesh.NetworkGateway{Network: network, Cluster: s.Cluster, Address: address, Port: outside(s, port)})
				continue // the label goes before what is said by name
			}
			for _, n := range byService[s.Host] {
				// Only the registry of the network's own endpoints can say what the name stands for there.
				if slices.Contains(n.registries, string(s.Cluster)) {
					add(mesh.NetworkGateway{Network: n.network, Cluster: s.Cluster, Address: address, Port: outside(s, n.port)})
				}
			}
		}
	}
	for _, o := range objects {
		for _, gw := range o.Gateways {
			add(gw)
		}
	}
	return g.sorted()
}

// gatewayObjectKey is an object of a cluster that says which gateways lead into a network.
type gatewayObjectKey struct {
	cluster mesh.ClusterID
	from    config.Key
}

// gatewayObject takes up what an object says of gateways.
func (e *edit) gatewayObject(op mesh.Op, g *mesh.GatewayObject) {
	k := gatewayObjectKey{g.Cluster, g.From}
	if op == mesh.Delete {
		g = nil
	}
	e.setGateways(k, g)
	e.outside = true
}

// outside gives the port at a service's external addresses that leads to one of its own.
func outside(s *mesh.Service, port uint32) uint32 {
	if mapped := s.ExternalPorts[port]; mapped != 0 {
		return mapped
	}
	return port
}

// labelledGateway gives the network to which a service leads by its label topology.istio.io/network, and the port for it: that of
// the label networking.istio.io/gatewayPort, or else 15443. It must be one of the service's ports.
func labelledGateway(s *mesh.Service) (network mesh.Network, port uint32) {
	network = mesh.Network(s.Labels[label.TopologyNetwork.Name])
	if network == "" {
		return "", 0
	}
	port = mesh.DefaultNetworkGatewayPort
	if n, err := strconv.ParseUint(s.Labels[label.NetworkingGatewayPort.Name], 10, 16); err == nil {
		port = uint32(n)
	}
	if _, there := s.Port(port); !there {
		port = 0
	}
	return network, port
}
