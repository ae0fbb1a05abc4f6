package listener

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// planHTTP plans an HTTP port: all services with the port share the wildcard address, and requests
// are routed by host. If the proxy itself uses the port, connections to a service with addresses
// are forwarded as TCP.
func (p *planner) planHTTP(b servicePort) {
	if !isReserved(p.in.settings, b.port.Number) {
		p.addRoutedAddresses(b, p.addHTTP(b, p.family.wildcard[0]))
		return
	}
	addresses, _ := p.addresses(b.service)
	if len(addresses) == 0 {
		p.addHTTP(b, p.family.wildcard[0]) // It reports the conflict.
		return
	}
	for _, a := range addresses {
		p.addTCP(b, a)
	}
	p.addProblem(b.service.From, "spec.ports", fmt.Sprintf(
		"port %d of %s is one of the proxy's own: connections to the service are forwarded unread", b.port.Number, b.service.Host))
}

// addRoutedAddresses adds a listener for each address of a service to whose port routes of the Gateway
// API apply: they apply to all requests that are sent to the address, whatever their host is. Requests at
// the shared wildcard address that name the service are routed by their address, if it is that of
// another service. So the shared listener, which may be nil, sets mesh.DestinationHeader. An address
// that several services of the port share identifies none of them.
func (p *planner) addRoutedAddresses(b servicePort, shared *draft) {
	routed := func(vs *snapshot.VirtualService) bool { return vs.AppliesByAddress(b.port.Number) }
	if p.in.class.direct || !slices.ContainsFunc(p.rules.list, routed) {
		return // Without traffic capture, applications do not call addresses of services.
	}
	addresses, _ := p.addresses(b.service)
	if p.visited != nil {
		for _, a := range addresses {
			p.draftAt(b, a) // Another service may share the address.
		}
		return
	}
	if !slices.ContainsFunc(p.rules.rulesFor(b.service.Host), routed) {
		return
	}
	owners := p.ownersOf(b.port.Number)
	for _, a := range addresses {
		if !owners.Owns(b.service, a) {
			continue
		}
		if d := p.draftAt(b, a); d != nil && d.http == nil {
			p.addHTTP(b, a)
			d.http.Route = string(b.service.Host) + ":" + formatNumber(b.port.Number)
		}
		if shared != nil && !shared.bind {
			shared.http.Destination = true
		}
	}
}

// ownersOf returns the owners of the addresses of the current egress listener's services on a port.
func (p *planner) ownersOf(port uint32) destination.AddressOwners {
	if p.owners == nil {
		p.owners = map[uint32]destination.AddressOwners{}
	}
	if p.owners[port] == nil {
		p.owners[port] = destination.OwnersOf(func(yield func(*mesh.Service) bool) {
			for _, s := range p.egress.services {
				if !yield(s.service) {
					return
				}
			}
		}, port)
	}
	return p.owners[port]
}

// planAddresses plans the service's own addresses and ranges, or else the wildcard address. A
// service whose addresses are all unreachable for these proxies has no listener.
func (p *planner) planAddresses(b servicePort) {
	addresses, ranges := p.addresses(b.service)
	if len(ranges) > 0 {
		p.addRanges(b, ranges)
	}
	for _, a := range addresses {
		p.planAddress(b, a)
	}
	if !slices.ContainsFunc(b.service.Addresses, isSpecific) {
		p.planAddress(b, p.family.wildcard[0])
	}
}

// isSpecific reports whether an address of a service identifies it. Invalid addresses, unspecified
// ones and "all" do not.
func isSpecific(text string) bool {
	prefix, ok := parsePrefix(text)
	return ok && prefix.Bits() > 0 && !(prefix.IsSingleIP() && prefix.Addr().IsUnspecified())
}

// addresses returns the service's addresses and ranges that the proxies can reach, canonical and
// without duplicates. Left out are invalid and unspecified addresses, and those of another IP
// family.
func (p *planner) addresses(svc *mesh.Service) (addresses, ranges []string) {
	for _, text := range svc.Addresses {
		prefix, ok := parsePrefix(text)
		switch {
		case !ok || !isSpecific(text) || !p.family.includes(prefix.Addr()):
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

// parsePrefix parses an IP or a CIDR; ok is false for others. IPv4-mapped IPv6 becomes IPv4, and
// the bits beyond the prefix are cleared.
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

// isPerEndpoint reports whether callers use the addresses of a service's endpoints: for a headless
// service, and for a ServiceEntry of resolution NONE that has endpoints or selects some. A
// ServiceEntry with neither is identified by its port alone.
func isPerEndpoint(s serviceInput) bool {
	if s.endpoints == nil {
		return false
	}
	return s.service.Headless || len(s.service.Selector) > 0 || len(s.endpoints.Endpoints) > 0
}

// planEndpoints plans the address of every endpoint, with the service's port, which callers connect
// to.
func (p *planner) planEndpoints(b servicePort) {
	for _, e := range b.endpoints.Endpoints {
		if e.ServicePort != b.port.Name {
			continue
		}
		p.planEndpoint(b, e.Address)
		for _, a := range e.MoreAddresses {
			p.planEndpoint(b, a)
		}
	}
}

func (p *planner) planEndpoint(b servicePort, address string) {
	if a, err := netip.ParseAddr(address); err == nil && !a.IsUnspecified() && p.family.includes(a) {
		p.planAddress(b, a.Unmap().WithZone("").String())
	}
}
