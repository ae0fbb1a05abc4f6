package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// EndpointSet contains all endpoints of one service, for all its ports and from all registries. It
// is immutable, and its pointer changes only with its content.
type EndpointSet struct {
	Service mesh.ServiceKey
	// Endpoints are sorted by service port, address and port.
	Endpoints []*mesh.Endpoint
	// Networked reports whether at least one endpoint declares its network.
	Networked bool
	// Confined reports whether at least one endpoint is limited to callers of its own cluster.
	Confined bool
}

// TLSPorts returns the names of the service ports, sorted, at which callers that choose the address
// themselves use mutual TLS: some endpoints of the port accept it, and each of the others could but
// for a PeerAuthentication that disables it. It returns nil for nil.
func (s *EndpointSet) TLSPorts() []string {
	if s == nil {
		return nil
	}
	var ports []string
	for rest := s.Endpoints; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(e *mesh.Endpoint) bool { return e.ServicePort != rest[0].ServicePort })
		if n < 0 {
			n = len(rest)
		}
		accepted, refused := false, false
		for _, e := range rest[:n] {
			accepted, refused = accepted || e.TLS, refused || !e.TLS && !e.TLSDisabled
		}
		if accepted && !refused {
			ports = append(ports, rest[0].ServicePort)
		}
		rest = rest[n:]
	}
	return ports
}

var noEndpoints = new(EndpointSet)

// applyShard stores, replaces or deletes a shard: the endpoints that one object lists for a
// service. It marks the service's endpoints as dirty. It ignores a shard with the same Hash and a
// deletion of an unknown one.
func (e *edit) applyShard(op mesh.Op, s *mesh.Shard) {
	list := e.shards.Get(s.Service)
	i := slices.IndexFunc(list, func(o *mesh.Shard) bool { return o.Key == s.Key })
	switch {
	case op == mesh.Delete && i < 0, op == mesh.Upsert && i >= 0 && list[i].Hash == s.Hash:
		return
	case op == mesh.Delete:
		list = slices.Delete(slices.Clone(list), i, i+1)
	case i >= 0:
		list = slices.Clone(list)
		list[i] = s
	default:
		list = append(slices.Clone(list), s)
		slices.SortFunc(list, compareShards)
	}
	if len(list) == 0 {
		e.shards.Delete(s.Service)
	} else {
		e.shards.Set(s.Service, list)
	}
	e.dirtyEndpoints[s.Service] = struct{}{}
}

// compareShards orders shards by provider, cluster and object.
func compareShards(a, b *mesh.Shard) int {
	return cmp.Or(
		cmp.Compare(a.Key.Provider, b.Key.Provider),
		cmp.Compare(a.Key.Cluster, b.Key.Cluster),
		a.Key.Object.Compare(b.Key.Object),
	)
}

// joinEndpoints merges the endpoints of every service in e.dirtyEndpoints and updates the index by
// address. Services whose endpoints changed are added to delta.Endpoints, the changed addresses to
// delta.Served. Services that are not Static are added to delta.Services too, because their
// endpoints are part of clusters or listeners.
func (e *edit) joinEndpoints() {
	for k := range e.dirtyEndpoints {
		old := e.endpoints.Get(k)
		joined := e.mergedEndpoints(k)
		if haveSameEndpoints(old, joined) {
			continue
		}
		if joined == nil {
			e.endpoints.Delete(k)
		} else {
			e.endpoints.Set(k, joined)
		}
		for _, a := range e.addresses.replaceEndpoints(k, old, joined) {
			add(&e.delta.Served, a)
		}
		add(&e.delta.Endpoints, k)
		if svc := e.services.Get(k); svc != nil && svc.Resolution != mesh.Static {
			// Only endpoints of Static services are sent by EDS. Endpoints of others are part of
			// clusters (DNS names) and listeners (headless services).
			add(&e.delta.Services, k)
		}
	}
}

// haveSameEndpoints reports whether the endpoints in two sets are equal, or both sets are nil.
func haveSameEndpoints(a, b *EndpointSet) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Endpoints, b.Endpoints, (*mesh.Endpoint).Equal)
}

// mergedEndpoints merges the endpoints of a service from its shards, ServiceEntries and selected
// workloads, sorted (compareEndpoints). If a ServiceEntry defines the service, shards of other
// registries than Consul are ignored. Of several with the same service port, address, port and
// network, the first of the healthiest is used; endpoints without an address are all kept.
// Endpoints for which PeerAuthentications disable mutual TLS are marked as plain text
// (markPlaintext). It returns nil if there are none or the service does not exist.
func (e *edit) mergedEndpoints(k mesh.ServiceKey) *EndpointSet {
	svc := e.services.Get(k)
	if svc == nil {
		return nil // the shards are kept until the service exists
	}
	var all []*mesh.Endpoint
	for _, s := range e.shards.Get(k) {
		switch {
		case s.Key.Provider == mesh.Consul:
			all = append(all, e.consulEndpoints(svc, s)...)
		case !s.Key.Provider.IsEntry() && !svc.Provider.IsEntry():
			all = append(all, s.Endpoints...)
		}
	}
	all = append(all, e.entryEndpoints(svc)...)
	all = append(all, e.selectedEndpoints(svc)...)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, compareEndpoints)
	// The same address may be listed twice, by an object and a selector, or by two EndpointSlices
	// during a move. The healthiest entry is used, and then the first.
	all = slices.CompactFunc(all, func(a, b *mesh.Endpoint) bool {
		return a.ServicePort == b.ServicePort && a.Address == b.Address && a.Address != "" && a.Port == b.Port &&
			a.Network == b.Network
	})
	all = e.next.peerAuthentications.markPlaintext(all)
	networked := slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.Network != "" })
	confined := slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.Confined })
	return &EndpointSet{
		Service:   k,
		Endpoints: all,
		Networked: networked,
		Confined:  confined,
	}
}

// consulEndpoints returns the endpoints of a shard of Consul. If svc is made from the shard's
// object, they are the shard's own list. If another definition of svc is made from the object in
// the shard's cluster, they get the port names of svc (renamePorts). Endpoints of ports that svc
// does not have are then left out. Otherwise it returns nil.
func (e *edit) consulEndpoints(svc *mesh.Service, shard *mesh.Shard) []*mesh.Endpoint {
	if shard.Key.Object == svc.From {
		return shard.Endpoints
	}
	for _, part := range e.definitions.byKey[svc.ServiceKey] {
		if part.From == shard.Key.Object && part.Cluster == shard.Key.Cluster {
			return renamePorts(shard.Endpoints, portNames(part, svc), svc)
		}
	}
	return nil
}

// selectedEndpoints returns endpoints for the workloads that the service's selector matches. For a
// Kubernetes Service, the definition in each cluster selects its own workloads. These get the port
// names of svc, and are left out for ports that svc does not have (renamePorts). ServiceEntries
// that are not the definition of the service are ignored.
func (e *edit) selectedEndpoints(svc *mesh.Service) []*mesh.Endpoint {
	if svc.Provider != mesh.Kubernetes {
		return e.workloads.selectedEndpoints(svc)
	}
	var all []*mesh.Endpoint
	for _, part := range e.definitions.byKey[svc.ServiceKey] {
		if part.Provider != mesh.Kubernetes {
			continue
		}
		if list := e.workloads.selectedEndpoints(part); len(list) > 0 {
			all = append(all, renamePorts(list, portNames(part, svc), svc)...)
		}
	}
	return all
}

// compareEndpoints orders endpoints by service port, address, port, network and health, the
// healthiest first.
func compareEndpoints(a, b *mesh.Endpoint) int {
	return cmp.Or(
		cmp.Compare(a.ServicePort, b.ServicePort),
		cmp.Compare(a.Address, b.Address),
		cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Network, b.Network),
		a.Health.Compare(b.Health),
	)
}
