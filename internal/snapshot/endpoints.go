package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// EndpointSet is all endpoints of one service, over all its ports and registries. It is a row.
type EndpointSet struct {
	Service mesh.ServiceKey
	// Endpoints are sorted by service port, address and port.
	Endpoints []*mesh.Endpoint
	// Networked says that some of them say which network they are in.
	Networked bool
	// Confined says that some of them are for callers of their own cluster only.
	Confined bool
	// Hash is the content hash.
	Hash uint64
}

// AllTLS says that all of them take mutual TLS, and that there are some.
func (s *EndpointSet) AllTLS() bool {
	return s != nil && len(s.Endpoints) > 0 && !slices.ContainsFunc(s.Endpoints, func(e *mesh.Endpoint) bool { return !e.TLS })
}

var noEndpoints = new(EndpointSet)

// shard takes up one event about a list of endpoints.
func (e *edit) shard(op mesh.Op, s *mesh.Shard) {
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
	e.rejoin[s.Service] = struct{}{}
}

func compareShards(a, b *mesh.Shard) int {
	return cmp.Or(cmp.Compare(a.Key.Provider, b.Key.Provider), cmp.Compare(a.Key.Cluster, b.Key.Cluster), a.Key.Object.Compare(b.Key.Object))
}

// joinEndpoints makes one set of the shards and selected workloads of each service that was touched.
func (e *edit) joinEndpoints() {
	for k := range e.rejoin {
		old := e.endpoints.Get(k)
		joined := e.joinedEndpoints(k)
		oldHash, newHash := uint64(0), uint64(0)
		if old != nil {
			oldHash = old.Hash
		}
		if joined != nil {
			newHash = joined.Hash
		}
		if oldHash == newHash {
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
			// Endpoints of other services are not sent by EDS: they shape clusters (DNS names) and listeners (headless).
			add(&e.delta.Services, k)
		}
	}
}

func (e *edit) joinedEndpoints(k mesh.ServiceKey) *EndpointSet {
	svc := e.services.Get(k)
	if svc == nil {
		return nil // endpoints wait in their shards until the service is known
	}
	var all []*mesh.Endpoint
	for _, s := range e.shards.Get(k) {
		if s.Key.Provider != mesh.External && svc.Provider != mesh.External {
			all = append(all, s.Endpoints...)
		}
	}
	all = append(all, e.entryEndpoints(svc)...)
	all = append(all, e.selectedEndpoints(svc)...)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, compareEndpoints)
	// The same address may be listed twice, by an object and by a selector, or by two EndpointSlices while it moves from one
	// to the other: the healthiest counts, and then the first.
	all = slices.CompactFunc(all, func(a, b *mesh.Endpoint) bool {
		return a.ServicePort == b.ServicePort && a.Address == b.Address && a.Address != "" && a.Port == b.Port && a.Network == b.Network
	})
	all = e.next.peerAuthentications.open(all)
	networked := slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.Network != "" })
	confined := slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.Confined })
	return &EndpointSet{Service: k, Endpoints: all, Networked: networked, Confined: confined, Hash: mesh.HashEndpoints(all)}
}

// selectedEndpoints gives the workloads that a service selects by label. Where several clusters have a Kubernetes Service, each
// of them selects its own.
func (e *edit) selectedEndpoints(svc *mesh.Service) []*mesh.Endpoint {
	if svc.Provider != mesh.Kubernetes {
		return e.workloads.endpoints(svc)
	}
	var all []*mesh.Endpoint
	for _, part := range e.claims.byKey[svc.ServiceKey] {
		if part.Provider != mesh.Kubernetes {
			continue
		}
		if list := e.workloads.endpoints(part); len(list) > 0 {
			all = append(all, renamed(list, portNames(part, svc), svc)...)
		}
	}
	return all
}

func compareEndpoints(a, b *mesh.Endpoint) int {
	return cmp.Or(cmp.Compare(a.ServicePort, b.ServicePort), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Network, b.Network), cmp.Compare(illness(a), illness(b)))
}

// illness orders endpoints by health, the healthy first.
func illness(e *mesh.Endpoint) int {
	switch e.Health {
	case mesh.Healthy:
		return 0
	case mesh.Draining:
		return 1
	default:
		return 2
	}
}
