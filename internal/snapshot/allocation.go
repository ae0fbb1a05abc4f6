package snapshot

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/vip"
)

// Allocation is how services without addresses are given some.
type Allocation struct {
	// Ranges are what addresses are taken from, at most one of each family; none: no addresses are given.
	Ranges []netip.Prefix
	// OnlyAsked has only those proxies know them that ask for it (node metadata DNS_AUTO_ALLOCATE); otherwise all do whose
	// applications resolve names by their agents (DNS_CAPTURE).
	OnlyAsked bool
}

// DefaultAllocation takes addresses from the ranges that Istio takes: 240.240.0.0/16 of those that are reserved (RFC 1112,
// class E), and 2001:2::/48 of those for benchmarks (RFC 5180). None of them is routed anywhere.
func DefaultAllocation() Allocation {
	return Allocation{Ranges: []netip.Prefix{netip.MustParsePrefix("240.240.0.0/16"), netip.MustParsePrefix("2001:2::/48")}}
}

// addressPlan is the builder's own account of who has which address.
type addressPlan struct {
	pools []rangePool
	// named are the addresses that services name themselves, by service, as far as they are in one of the ranges.
	named map[mesh.ServiceKey][]netip.Addr
}

type rangePool struct {
	prefix netip.Prefix
	*vip.Pool
}

func newAddressPlan(a Allocation) addressPlan {
	p := addressPlan{named: map[mesh.ServiceKey][]netip.Addr{}}
	for _, r := range a.Ranges {
		p.pools = append(p.pools, rangePool{r, vip.NewPool(r)})
	}
	return p
}

func vipKey(k mesh.ServiceKey) vip.Key { return vip.Key{Namespace: k.Namespace, Host: string(k.Host)} }

// set takes up what a service is now, nil if it is gone. It gives the other services that have another address now.
func (p addressPlan) set(k mesh.ServiceKey, now *mesh.Service) (moved []mesh.ServiceKey) {
	named := p.namedBy(now)
	for _, pool := range p.pools {
		note := func(keys []vip.Key) {
			for _, m := range keys {
				moved = append(moved, mesh.ServiceKey{Namespace: m.Namespace, Host: mesh.Hostname(m.Host)})
			}
		}
		for _, a := range named {
			if pool.prefix.Contains(a) && !slices.Contains(p.named[k], a) {
				note(pool.Reserve(a))
			}
		}
		for _, a := range p.named[k] {
			if pool.prefix.Contains(a) && !slices.Contains(named, a) {
				note(pool.Release(a))
			}
		}
		if now != nil && now.Allocates && len(now.Addresses) == 0 && now.Provider == mesh.External {
			note(pool.Set(vip.Claim{Key: vipKey(k), Created: now.Created, Wanted: pool.wanted(now.Allocated)}))
		} else {
			note(pool.Remove(vipKey(k)))
		}
	}
	if len(named) == 0 {
		delete(p.named, k)
	} else {
		p.named[k] = named
	}
	return moved
}

// namedBy gives the addresses that a service names itself and that could be given to another.
func (p addressPlan) namedBy(s *mesh.Service) []netip.Addr {
	if s == nil {
		return nil
	}
	var list []netip.Addr
	for _, a := range addresses(s.Addresses) {
		if !slices.Contains(list, a) && slices.ContainsFunc(p.pools, func(r rangePool) bool { return r.prefix.Contains(a) }) {
			list = append(list, a)
		}
	}
	return list
}

// wanted gives the first address of the pool's family, which may be outside of its range: another control plane gave it.
func (p rangePool) wanted(told []string) netip.Addr {
	for _, a := range addresses(told) {
		if a.Is4() == p.prefix.Addr().Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// allocated gives the service with the addresses that it has been given.
func (p addressPlan) allocated(s *mesh.Service) *mesh.Service {
	if s == nil {
		return nil
	}
	var given []string
	for _, pool := range p.pools {
		if a := pool.Address(vipKey(s.ServiceKey)); a.IsValid() {
			given = append(given, a.String())
		}
	}
	if slices.Equal(given, s.Allocated) {
		return s
	}
	next := *s
	next.Allocated, next.Hash = given, 0
	return next.Sealed()
}

// withAllocated gives the service as those see it who know the addresses that it has been given.
func withAllocated(s *mesh.Service) *mesh.Service {
	next := *s
	next.Addresses, next.Hash = s.Allocated, 0
	return next.Sealed()
}

// KnowsAllocated says whether a proxy knows the addresses that were given to services: only where its applications are told
// them. Others would see listeners at addresses that nobody calls.
func (s *Snapshot) KnowsAllocated(p *mesh.Proxy) bool {
	return s.allocation != nil && bool(p.Metadata.DNSCapture) && (!s.allocation.OnlyAsked || bool(p.Metadata.DNSAutoAllocate))
}

// Allocated gives the service as those see it who know the addresses that it has been given: the same row, if it has none of
// them.
func (s *Snapshot) Allocated(svc *mesh.Service) *mesh.Service {
	if len(svc.Allocated) == 0 {
		return svc
	}
	if known := s.allocated.Get(svc.ServiceKey); known != nil {
		return known
	}
	return svc
}
