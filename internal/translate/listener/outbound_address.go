package listener

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// takeHTTP bids for HTTP: all services of a port share the wildcard address, and are told apart by what requests say.
// Where the proxy itself has the port, a service with an address gets its connections at least unread.
func (p *planner) takeHTTP(b bid) {
	if !reserved(p.in.settings, b.port.Number) {
		p.http(b, p.family.wildcard[0])
		return
	}
	addresses, _ := p.addresses(b.service)
	if len(addresses) == 0 {
		p.http(b, p.family.wildcard[0]) // which tells of the conflict
		return
	}
	for _, a := range addresses {
		p.tcp(b, a)
	}
	p.problem(b.service.From, "spec.ports", fmt.Sprintf(
		"port %d of %s is one of the proxy's own: connections to the service are forwarded unread", b.port.Number, b.service.Host))
}

// takeAddresses bids for the service's own addresses and ranges, or else for the wildcard. A service that has addresses
// but none that these proxies reach bids for nothing.
func (p *planner) takeAddresses(b bid) {
	addresses, ranges := p.addresses(b.service)
	if len(ranges) > 0 {
		p.ranges(b, ranges)
	}
	for _, a := range addresses {
		p.take(b, a)
	}
	if !slices.ContainsFunc(b.service.Addresses, specific) {
		p.take(b, p.family.wildcard[0])
	}
}

// specific says whether an address of a service tells it from others: one that is no address at all, and "all", do not.
func specific(text string) bool {
	prefix, ok := parsePrefix(text)
	return ok && prefix.Bits() > 0 && !(prefix.IsSingleIP() && prefix.Addr().IsUnspecified())
}

// addresses gives the service's addresses and ranges that the proxies reach, canonical, each once.
func (p *planner) addresses(svc *mesh.Service) (addresses, ranges []string) {
	for _, text := range svc.Addresses {
		prefix, ok := parsePrefix(text)
		switch {
		case !ok || !specific(text) || !p.family.has(prefix.Addr()):
		case prefix.IsSingleIP():
			addresses = appendOnce(addresses, prefix.Addr().String())
		default:
			ranges = appendOnce(ranges, prefix.String())
		}
	}
	return addresses, ranges
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// parsePrefix reads an IP or a CIDR, IPv4 in IPv6 as IPv4, with the bits beyond the prefix cleared.
func parsePrefix(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a, bits := prefix.Addr(), prefix.Bits()
	if a.Is4In6() && bits >= 96 {
		a, bits = a.Unmap(), bits-96
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}

// perEndpoint says that callers know a service by the addresses of its endpoints: a headless one, and a ServiceEntry of
// resolution NONE that has endpoints or selects some. One that has neither is known by its port alone.
func perEndpoint(s serviceInput) bool {
	if s.endpoints == nil {
		return false
	}
	return s.service.Headless || len(s.service.Selector) > 0 || len(s.endpoints.Endpoints) > 0
}

// takeEndpoints bids for the address of every endpoint, at the service's port: that is what callers connect to.
func (p *planner) takeEndpoints(b bid) {
	for _, e := range b.endpoints.Endpoints {
		if e.ServicePort != b.port.Name {
			continue
		}
		p.takeEndpoint(b, e.Address)
		for _, a := range e.MoreAddresses {
			p.takeEndpoint(b, a)
		}
	}
}

func (p *planner) takeEndpoint(b bid, address string) {
	if a, err := netip.ParseAddr(address); err == nil && !a.IsUnspecified() && p.family.has(a) {
		p.take(b, a.Unmap().WithZone("").String())
	}
}
