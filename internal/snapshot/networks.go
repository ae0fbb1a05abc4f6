package snapshot

import (
	"slices"
	"strconv"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// NetworkGateways contains the gateways through which each network is reached from others. It is
// immutable, and its pointer changes only with its content. A nil value is empty.
type NetworkGateways struct {
	all       []mesh.NetworkGateway // sorted
	byNetwork map[mesh.Network][]mesh.NetworkGateway
	byCluster map[clusterNetwork][]mesh.NetworkGateway
	// scale is the least common multiple of the numbers of gateways of all networks and clusters,
	// up to maxScale.
	scale uint32
	// names are the DNS names of gateways, sorted. unresolved are the networks whose gateways all
	// have names without known addresses.
	names      []string
	unresolved []mesh.Network
}

type clusterNetwork struct {
	network mesh.Network
	cluster mesh.ClusterID
}

// maxScale limits scale, because scaled weights must fit in 32 bits.
const maxScale = 1 << 16

// All returns the gateways of all networks, sorted, or nil if g is nil. Callers must not modify the
// list.
func (g *NetworkGateways) All() []mesh.NetworkGateway {
	if g == nil {
		return nil
	}
	return g.all
}

// GatewaysFor returns the gateways through which endpoints of a cluster in a network are reached.
// These are the gateways of that cluster if there are any, otherwise all gateways of the network.
// It returns nil if the network has none, or g is nil.
func (g *NetworkGateways) GatewaysFor(network mesh.Network, cluster mesh.ClusterID) []mesh.NetworkGateway {
	if g == nil {
		return nil
	}
	if own := g.byCluster[clusterNetwork{network, cluster}]; len(own) > 0 {
		return own
	}
	return g.byNetwork[network]
}

// IsUnresolved reports whether a network has gateways, but none with a known address. It returns
// false for a network without gateways.
func (g *NetworkGateways) IsUnresolved(network mesh.Network) bool {
	return g != nil && slices.Contains(g.unresolved, network)
}

// WeightScale returns the factor by which weights are multiplied, so that a weight can be divided
// by the number of gateways of any list without remainder, as far as maxScale permits. It is 1 if g
// is nil.
func (g *NetworkGateways) WeightScale() uint32 {
	if g == nil {
		return 1
	}
	return g.scale
}

// equal reports whether both have the same gateways, names and unresolved networks in the same
// order. Two nil values are equal.
func (g *NetworkGateways) equal(o *NetworkGateways) bool {
	if g == nil || o == nil {
		return g == o
	}
	return slices.Equal(g.all, o.all) && slices.Equal(g.names, o.names) && slices.Equal(g.unresolved, o.unresolved)
}

// withIndexes sets the indexes of g from its gateways, and its scale to a common multiple of the
// numbers of gateways by network and by cluster. Numbers that would raise it above maxScale are
// left out (includeInScale). It returns g, or nil if g has neither gateways nor names.
func (g *NetworkGateways) withIndexes() *NetworkGateways {
	if len(g.all) == 0 && len(g.names) == 0 {
		return nil
	}
	g.byNetwork = map[mesh.Network][]mesh.NetworkGateway{}
	g.byCluster = map[clusterNetwork][]mesh.NetworkGateway{}
	g.scale = 1
	for _, gw := range g.all {
		g.byNetwork[gw.Network] = append(g.byNetwork[gw.Network], gw)
		k := clusterNetwork{gw.Network, gw.Cluster}
		g.byCluster[k] = append(g.byCluster[k], gw)
	}
	for _, l := range g.byNetwork {
		g.includeInScale(len(l))
	}
	for _, l := range g.byCluster {
		g.includeInScale(len(l))
	}
	return g
}

// includeInScale changes g.scale to the least common multiple of it and n, unless that exceeds
// maxScale.
func (g *NetworkGateways) includeInScale(n int) {
	a, b := uint64(g.scale), uint64(n)
	for b != 0 {
		a, b = b, a%b
	}
	if next := uint64(g.scale) / a * uint64(n); next <= maxScale {
		g.scale = uint32(next)
	}
}

// joinNetworks computes the network gateways again if services, objects or settings that define
// them changed. If the result differs, everything may have changed (delta.All). That is rare, and
// can affect the endpoints of every service.
func (e *edit) joinNetworks() {
	if !e.delta.All && !e.networksDirty {
		return
	}
	now := networkGateways(
		e.next.Settings,
		e.definitions.externalDefinitions(),
		e.Builder.gateways,
		e.next.resolved,
	).withIndexes()
	if now.equal(e.next.networks) {
		return
	}
	e.next.networks = now
	e.delta.All = true
}

// networkGateways returns all gateways, sorted and without duplicates: addresses and registry
// services in MeshNetworks, services with the label of a network, and gateways that other objects
// declare. services are the definitions of each cluster. DNS names are replaced with their resolved
// addresses, because EDS accepts no names. Names that are not in resolved yield no gateway, but are
// recorded in the result.
func networkGateways(
	settings *Settings,
	services []*mesh.Service,
	objects map[gatewayObjectKey]*mesh.GatewayObject,
	resolved map[string]*mesh.ResolvedName,
) *NetworkGateways {
	g := newGatewayList(resolved)
	byService := g.addMeshNetworks(settings)
	for _, s := range services {
		g.addServiceGateways(s, byService[s.Host])
	}
	for _, o := range objects {
		for _, gw := range o.Gateways {
			g.add(gw)
		}
	}
	return g.build()
}

// registryGateway is a gateway in MeshNetworks that is declared by the name of a registry service.
type registryGateway struct {
	network mesh.Network
	port    uint32
	// registries are the clusters of the network's own endpoints.
	registries []string
}

// addMeshNetworks adds the gateways in MeshNetworks that have an address. It returns the gateways
// with a registry service, by the service's hostname, each with its network, port and the
// registries of the network's endpoints.
func (l *gatewayList) addMeshNetworks(settings *Settings) map[mesh.Hostname][]registryGateway {
	byService := map[mesh.Hostname][]registryGateway{}
	for network, n := range settings.Networks.GetNetworks() {
		var registries []string
		for _, e := range n.GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" {
				registries = append(registries, r)
			}
		}
		for _, gw := range n.GetGateways() {
			if a := gw.GetAddress(); a != "" {
				l.add(mesh.NetworkGateway{Network: mesh.Network(network), Address: a, Port: gw.GetPort()})
			}
			if host := mesh.Hostname(gw.GetRegistryServiceName()); host != "" {
				byService[host] = append(byService[host], registryGateway{mesh.Network(network), gw.GetPort(), registries})
			}
		}
	}
	return byService
}

// addServiceGateways adds the external addresses of a service, with their external ports, as
// gateways of the network in its label. None is added if the service lacks the port of the label
// (labelledGateway). Without the label they are gateways of the networks in named, the gateways in
// MeshNetworks with its hostname. An entry of named applies only if its registries contain the
// service's cluster.
func (l *gatewayList) addServiceGateways(s *mesh.Service, named []registryGateway) {
	network, port := labelledGateway(s)
	for _, address := range s.External {
		gw := mesh.NetworkGateway{Cluster: s.Cluster, Address: address}
		if network != "" {
			gw.Network, gw.Port = network, externalPort(s, port)
			l.add(gw)
			continue // the label takes precedence over MeshNetworks
		}
		for _, n := range named {
			// The name identifies a gateway of this network only in registries of the network's own
			// endpoints.
			if slices.Contains(n.registries, string(s.Cluster)) {
				gw.Network, gw.Port = n.network, externalPort(s, n.port)
				l.add(gw)
			}
		}
	}
}

// gatewayObjectKey identifies an object that declares network gateways.
type gatewayObjectKey struct {
	cluster mesh.ClusterID
	from    config.Key
}

// applyGatewayObject stores or deletes the gateways that an object declares, and marks the networks
// as changed.
func (e *edit) applyGatewayObject(op mesh.Op, g *mesh.GatewayObject) {
	k := gatewayObjectKey{g.Cluster, g.From}
	if op == mesh.Delete {
		g = nil
	}
	e.setGateways(k, g)
	e.networksDirty = true
}

// externalPort returns the port at a service's external addresses that leads to port, a port of the
// service. It returns port itself if none is mapped to it.
func externalPort(s *mesh.Service, port uint32) uint32 {
	if mapped := s.ExternalPorts[port]; mapped != 0 {
		return mapped
	}
	return port
}

// labelledGateway returns the network that a service is a gateway of by its label
// topology.istio.io/network, or "" without the label. port is read from the label
// networking.istio.io/gatewayPort, or 15443 if that is missing or invalid. port is 0 if the service
// does not have it.
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
