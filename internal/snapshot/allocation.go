package snapshot

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/vip"
)

// Allocation configures the automatic allocation of virtual addresses to services without
// addresses.
type Allocation struct {
	// Ranges are the ranges to allocate from, at most one per address family. If empty, nothing is
	// allocated.
	Ranges []netip.Prefix
	// OnlyOnRequest limits the allocated addresses to proxies that request them (node metadata
	// DNS_AUTO_ALLOCATE). If false, every proxy whose agent answers DNS (DNS_CAPTURE) uses them.
	OnlyOnRequest bool
}

// DefaultAllocation returns the ranges that Istio allocates from, for all proxies with DNS capture:
// 240.240.0.0/16, which is part of the reserved class E (RFC 1112), and 2001:2::/48, which is
// reserved for benchmarks (RFC 5180). Neither is routed.
func DefaultAllocation() Allocation {
	return Allocation{
		Ranges: []netip.Prefix{netip.MustParsePrefix("240.240.0.0/16"), netip.MustParsePrefix("2001:2::/48")},
	}
}

// addressPlan is the Builder's mutable state of address allocation.
type addressPlan struct {
	pools []rangePool
	// named maps services to their explicit addresses that lie in one of the ranges.
	named map[mesh.ServiceKey][]netip.Addr
}

// rangePool is the pool of one range.
type rangePool struct {
	prefix netip.Prefix
	*vip.Pool
}

// newAddressPlan returns an empty plan with one pool per range.
func newAddressPlan(a Allocation) addressPlan {
	p := addressPlan{named: map[mesh.ServiceKey][]netip.Addr{}}
	for _, r := range a.Ranges {
		p.pools = append(p.pools, rangePool{r, vip.NewPool(r)})
	}
	return p
}

// vipKey returns the key by which the pools of addresses identify a service.
func vipKey(k mesh.ServiceKey) vip.Key { return vip.Key{Namespace: k.Namespace, Host: string(k.Host)} }

// set records the current definition now of the service k, nil if it was removed. It reserves the
// explicit addresses of now, and releases the earlier ones that now lacks. A service of a
// ServiceEntry that has no addresses and permits it (Allocates) is allocated one of each range, if
// possible its Allocated one; any other service loses its allocated addresses. It returns the
// services whose allocated address changed as a result, perhaps repeatedly; k need not be among
// them.
func (p addressPlan) set(k mesh.ServiceKey, now *mesh.Service) (moved []mesh.ServiceKey) {
	named := p.explicitAddresses(now)
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
		if now != nil && now.Allocates && len(now.Addresses) == 0 && now.Provider.IsEntry() {
			note(
				pool.Set(
					vip.Request{Key: vipKey(k), Created: now.Created, Wanted: pool.requestedAddress(now.Allocated)},
				),
			)
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

// explicitAddresses returns the distinct IP addresses in s.Addresses that lie in one of the ranges,
// in their order. They must not be allocated to another service. It returns nil for nil.
func (p addressPlan) explicitAddresses(s *mesh.Service) []netip.Addr {
	if s == nil {
		return nil
	}
	var list []netip.Addr
	for _, a := range parseAddresses(s.Addresses) {
		if !slices.Contains(list, a) &&
			slices.ContainsFunc(p.pools, func(r rangePool) bool { return r.prefix.Contains(a) }) {
			list = append(list, a)
		}
	}
	return list
}

// requestedAddress returns the first address in told, the allocations of another control plane, of
// the pool's family, or the zero Addr. It may be outside of the pool's range.
func (p rangePool) requestedAddress(told []string) netip.Addr {
	for _, a := range parseAddresses(told) {
		if a.Is4() == p.prefix.Addr().Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// withAllocation returns a copy of s with its current allocated addresses in Allocated, in the
// order of the ranges, and with a new hash. It returns s itself if they are unchanged, or nil for
// nil.
func (p addressPlan) withAllocation(s *mesh.Service) *mesh.Service {
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

// asAllocated returns a copy of s with the allocated addresses as its addresses. It gets a new
// hash.
func asAllocated(s *mesh.Service) *mesh.Service {
	next := *s
	next.Addresses, next.Hash = s.Allocated, 0
	return next.Sealed()
}

// KnowsAllocatedAddresses reports whether the applications beside a proxy resolve services to
// allocated addresses. Other proxies get no listeners for these addresses. It returns false if
// nothing is allocated. With OnlyOnRequest the proxy must have DNSAutoAllocate, too.
func (s *Snapshot) KnowsAllocatedAddresses(p *mesh.Proxy) bool {
	return s.allocation != nil && bool(p.Metadata.DNSCapture) &&
		(!s.allocation.OnlyOnRequest || bool(p.Metadata.DNSAutoAllocate))
}

// WithAllocatedAddresses returns a copy of svc whose addresses are its allocated ones. It returns
// svc itself if it has none, or if s has no allocated addresses for the service. Equal content has
// an equal pointer.
func (s *Snapshot) WithAllocatedAddresses(svc *mesh.Service) *mesh.Service {
	if len(svc.Allocated) == 0 {
		return svc
	}
	if known := s.allocated.Get(svc.ServiceKey); known != nil {
		return known
	}
	return svc
}
