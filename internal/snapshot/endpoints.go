package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// EndpointSet is all endpoints of one service, over all its ports and registries. It is a row.
type EndpointSet struct {
	Service mesh.ServiceKey
	// Endpoints are sorted by service port, address and port.
	Endpoints []*mesh.Endpoint
	// Networked says that some of them say which network they are in.
	Networked bool
	// Hash is the content hash.
	Hash uint64
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
	all = append(all, e.workloads.endpoints(svc)...)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, compareEndpoints)
	// The same address may be listed twice, by an object and by a selector: the first one counts.
	all = slices.CompactFunc(all, func(a, b *mesh.Endpoint) bool {
		return a.ServicePort == b.ServicePort && a.Address == b.Address && a.Address != "" && a.Port == b.Port && a.Network == b.Network
	})
	networked := slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.Network != "" })
	return &EndpointSet{Service: k, Endpoints: all, Networked: networked, Hash: mesh.HashEndpoints(all)}
}

func compareEndpoints(a, b *mesh.Endpoint) int {
	return cmp.Or(cmp.Compare(a.ServicePort, b.ServicePort), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Network, b.Network))
}
