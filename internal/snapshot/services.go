package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// service takes up one event about a service as one registry tells it.
func (e *edit) service(op mesh.Op, s *mesh.Service) {
	claims := e.claims[s.ServiceKey]
	i := slices.IndexFunc(claims, func(c *mesh.Service) bool { return sameClaim(c, s) })
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
	if len(claims) == 0 {
		delete(e.claims, s.ServiceKey)
	} else {
		e.claims[s.ServiceKey] = claims
	}
	add(&e.delta.Services, s.ServiceKey)
	e.rejoin[s.ServiceKey] = struct{}{}
}

// sameClaim says whether two definitions of a service come from the same place.
func sameClaim(a, b *mesh.Service) bool {
	return a.Provider == b.Provider && a.Cluster == b.Cluster && a.From == b.From
}

// joinServices makes one service of all definitions of each key that changed.
func (e *edit) joinServices() {
	if len(e.delta.Services) == 0 {
		return
	}
	for k := range e.delta.Services {
		old, joined := e.services.Get(k), e.join(e.claims[k])
		switch {
		case old == nil && joined == nil, old != nil && joined != nil && old.Hash == joined.Hash:
			delete(e.delta.Services, k) // another cluster said what is known already
			continue
		case joined == nil:
			e.services.Delete(k)
		default:
			e.services.Set(k, joined)
		}
	}
	e.listServices()
}

// join picks the definition that counts: Kubernetes before others, the local cluster before remote ones, then the
// older object. Addresses of the same service in other clusters are added behind its own; services that are not
// Kubernetes' are never merged.
func (e *edit) join(claims []*mesh.Service) *mesh.Service {
	if len(claims) <= 1 {
		if len(claims) == 1 {
			return claims[0]
		}
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(claims), e.claimOrder)
	first := sorted[0]
	if first.Provider != mesh.Kubernetes {
		return first
	}
	merged := *first
	merged.Addresses = slices.Clone(first.Addresses)
	for _, s := range sorted[1:] {
		if s.Provider != mesh.Kubernetes {
			continue
		}
		for _, a := range s.Addresses {
			if !slices.Contains(merged.Addresses, a) {
				merged.Addresses = append(merged.Addresses, a)
			}
		}
	}
	merged.Hash = 0
	return merged.Sealed()
}

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

func compareServices(a, b *mesh.Service) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace))
}

// listServices brings the sorted list of services and the index of selecting services up to date.
func (e *edit) listServices() {
	var now []*mesh.Service
	for k := range e.delta.Services {
		if s := e.services.Get(k); s != nil {
			now = append(now, s)
		}
	}
	slices.SortFunc(now, compareServices)
	kept := make([]*mesh.Service, 0, len(e.next.serviceList)+len(now))
	namespaces := map[string]bool{}
	for k := range e.delta.Services {
		namespaces[k.Namespace] = true
	}
	for _, s := range e.next.serviceList {
		if _, changed := e.delta.Services[s.ServiceKey]; changed {
			continue
		}
		for len(now) > 0 && compareServices(now[0], s) < 0 {
			kept, now = append(kept, now[0]), now[1:]
		}
		kept = append(kept, s)
	}
	e.next.serviceList = append(kept, now...)

	selecting := maps.Clone(e.next.selecting)
	if selecting == nil {
		selecting = map[string][]*mesh.Service{}
	}
	for ns := range namespaces {
		delete(selecting, ns)
	}
	for _, s := range e.next.serviceList {
		if namespaces[s.Namespace] && len(s.Selector) > 0 {
			selecting[s.Namespace] = append(selecting[s.Namespace], s)
		}
	}
	e.next.selecting = selecting
}
