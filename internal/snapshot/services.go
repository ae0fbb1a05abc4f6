package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// service takes up one event about a service as one registry tells it.
func (e *edit) service(op mesh.Op, s *mesh.Service) {
	claims := e.claims.byKey[s.ServiceKey]
	i := slices.IndexFunc(claims, func(c *mesh.Service) bool { return sameClaim(c, s) })
	e.outside = e.outside || len(s.External) > 0 || i >= 0 && len(claims[i].External) > 0
	switch {
	case op == mesh.Delete && i < 0, op == mesh.Upsert && i >= 0 && claims[i].Hash == s.Hash:
		return
	case op == mesh.Delete:
		claims = slices.Delete(slices.Clone(claims), i, i+1)
	case i >= 0:
		claims = slices.Clone(claims)
		claims[i] = s
	default:
		claims = append(slices.Clone(claims), s)
	}
	slices.SortFunc(claims, e.claimOrder)
	e.setClaims(s.ServiceKey, claims)
	add(&e.delta.Services, s.ServiceKey)
	e.rejoin[s.ServiceKey] = struct{}{}
}

// sameClaim says whether two definitions of a service come from the same place.
func sameClaim(a, b *mesh.Service) bool {
	return a.Provider == b.Provider && a.Cluster == b.Cluster && a.From == b.From
}

// claimOrder puts first what counts first: Kubernetes before others, the local cluster before remote ones, then the older
// object.
func (e *edit) claimOrder(a, b *mesh.Service) int {
	rank := func(s *mesh.Service) int {
		switch {
		case s.Provider != mesh.Kubernetes:
			return 2
		case s.Cluster != e.options.Cluster:
			return 1
		default:
			return 0
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), cmp.Compare(a.Cluster, b.Cluster), a.From.Compare(b.From))
}

// joinServices makes one service of all definitions of each key that changed, and gives those without addresses some, which
// may take them from others.
func (e *edit) joinServices() {
	if len(e.delta.Services) == 0 {
		return
	}
	joined := make(map[mesh.ServiceKey]*mesh.Service, len(e.delta.Services))
	var moved []mesh.ServiceKey
	for k := range e.delta.Services {
		joined[k] = e.join(k)
		moved = append(moved, e.planAddresses(k, joined[k])...)
	}
	for _, k := range moved {
		if _, known := joined[k]; !known {
			joined[k] = e.join(k)
			add(&e.delta.Services, k)
		}
	}
	for k, s := range joined {
		if !e.putService(k, e.addressPlan.allocated(s)) {
			delete(e.delta.Services, k) // another cluster said what is known already
		}
	}
	e.listServices()
}

// putService notes what a service is now, nil if it is gone, and says whether that is news.
func (e *edit) putService(k mesh.ServiceKey, now *mesh.Service) bool {
	old := e.services.Get(k)
	if old == nil || now == nil || old.Hash != now.Hash {
		e.homes.replace(old, now)
	}
	switch {
	case old == nil && now == nil, old != nil && now != nil && old.Hash == now.Hash:
		return false
	case now == nil:
		e.services.Delete(k)
		e.allocated.Delete(k)
		return true
	}
	e.services.Set(k, now)
	if len(now.Allocated) > 0 {
		e.allocated.Set(k, withAllocated(now))
	} else {
		e.allocated.Delete(k)
	}
	return true
}
