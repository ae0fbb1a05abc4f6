package listener

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// planPort makes a service port a candidate for its addresses: for the egress listener's address if
// it has one. Otherwise HTTP shares one address, headless services have one per endpoint, and
// others have their own. If the proxy itself uses the port, HTTP is forwarded (planReservedHTTP).
func (p *planner) planPort(b servicePort) {
	switch {
	case p.at.address != "":
		p.planAddress(b, p.at.address, nil)
	case b.protocol.IsHTTP() && isReserved(p.in.settings, b.port.Number):
		p.planReservedHTTP(b)
	case b.protocol.IsHTTP():
		// All services with the port share the wildcard address, and requests are routed by host.
		shared := p.planAddress(b, p.family.wildcard[0], nil)
		p.planRoutedAddresses(b, shared)
	case isPerEndpoint(b.serviceInput):
		p.planEndpoints(b)
	default:
		p.planOwnAddresses(b)
	}
}

// planReservedHTTP plans an HTTP port that the proxy itself uses: connections to the addresses of
// the service are forwarded as TCP, with a Problem. A service without addresses is a conflict, and
// nothing is planned.
func (p *planner) planReservedHTTP(b servicePort) {
	addresses, _ := p.addresses(b.service)
	if len(addresses) == 0 {
		p.planAddress(b, p.family.wildcard[0], nil) // It reports the conflict.
		return
	}
	forwarded := b
	forwarded.protocol = mesh.TCP
	for _, a := range addresses {
		p.planAddress(forwarded, a, nil)
	}
	last, _ := p.family.at(addresses[len(addresses)-1], b.port.Number)
	p.addProblem(last, b.service.From, "spec.ports", fmt.Sprintf(
		"port %d of %s is one of the proxy's own: connections to the service are forwarded unread",
		b.port.Number, b.service.Host))
}

// planRoutedAddresses adds a listener for each address of a service to whose port routes of the
// Gateway API apply: they apply to all requests that are sent to the address, whatever their host
// is. An address that several services of the port share identifies none of them, and gets none.
// While addresses are only visited, it visits all addresses of the service.
//
// Requests at the shared wildcard address that name the service are routed by their address, if it
// belongs to another service. So it sets mesh.DestinationHeader in shared, the listener of that
// address, which may be nil. It does nothing without traffic capture.
func (p *planner) planRoutedAddresses(b servicePort, shared *draft) {
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
			p.addHTTP(d, b)
			d.http.Route = ownRoute(b)
		}
		if shared != nil && shared.http != nil && !shared.bind {
			shared.http.Destination = true
		}
	}
}

// ownersOf maps each address of the services of the current egress listener that have the port to
// its owner. An address that several services share has a nil owner. The result is cached by port
// in p.owners.
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

// isPerEndpoint reports whether callers use the addresses of a service's endpoints: for a headless
// service, and for a ServiceEntry of resolution NONE that has endpoints or selects some. It returns
// false if s.endpoints is nil. A ServiceEntry with neither is identified by its port alone.
func isPerEndpoint(s serviceInput) bool {
	if s.endpoints == nil {
		return false
	}
	return s.service.Headless || len(s.service.Selector) > 0 || len(s.endpoints.Endpoints) > 0
}

// planEndpoints plans all addresses of the endpoints whose ServicePort is the name of b's port,
// each with the service's port, which callers connect to. It ignores invalid and unspecified
// addresses, and addresses of another IP family.
func (p *planner) planEndpoints(b servicePort) {
	plan := func(address string) {
		if a, err := netip.ParseAddr(address); err == nil && !a.IsUnspecified() && p.family.includes(a) {
			p.planAddress(b, a.Unmap().WithZone("").String(), nil)
		}
	}
	for _, e := range b.endpoints.Endpoints {
		if e.ServicePort != b.port.Name {
			continue
		}
		plan(e.Address)
		for _, a := range e.MoreAddresses {
			plan(a)
		}
	}
}

// planOwnAddresses plans the service's own addresses, and its ranges at the wildcard address. A
// service without valid specific addresses is planned at the wildcard address instead. If it has
// some, but none that these proxies can reach, it has no listener.
func (p *planner) planOwnAddresses(b servicePort) {
	addresses, ranges := p.addresses(b.service)
	if len(ranges) > 0 {
		slices.Sort(ranges)
		p.planAddress(b, p.family.wildcard[0], ranges)
	}
	for _, a := range addresses {
		p.planAddress(b, a, nil)
	}
	if !slices.ContainsFunc(b.service.Addresses, isSpecific) {
		p.planAddress(b, p.family.wildcard[0], nil)
	}
}

// addresses returns the service's single addresses and its ranges that the proxies can reach,
// canonical and without duplicates. It leaves out invalid and unspecified addresses, and addresses
// of another IP family.
func (p *planner) addresses(svc *mesh.Service) (addresses, ranges []string) {
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, text := range svc.Addresses {
		prefix, ok := parsePrefix(text)
		switch {
		case !ok || !isSpecific(text) || !p.family.includes(prefix.Addr()):
		case prefix.IsSingleIP():
			add(&addresses, prefix.Addr().String())
		default:
			add(&ranges, prefix.String())
		}
	}
	return addresses, ranges
}

// isSpecific reports whether an address or range of a service identifies it. It returns false for
// invalid and unspecified addresses, and for the range of all addresses.
func isSpecific(text string) bool {
	prefix, ok := parsePrefix(text)
	return ok && prefix.Bits() > 0 && !(prefix.IsSingleIP() && prefix.Addr().IsUnspecified())
}

// planAddress adds a service port to the draft of an address, for destinations in ranges if there
// are any, and returns the draft. It returns nil if the port is no candidate there (draftAt).
func (p *planner) planAddress(b servicePort, address string, ranges []string) *draft {
	d := p.draftAt(b, address)
	if d != nil {
		p.addCandidate(d, b, ranges)
	}
	return d
}

// planUnknownRequests plans a listener for requests to unknown hosts on port 80, where they are
// most likely sent, even without a service: their destination is resolved by DNS. It does nothing
// if the outbound policy does not resolve hosts, the current egress listener is one of the Sidecar,
// addresses are only visited, or the address is not to be planned, planned already or taken.
//
// Detecting HTTP on every port would wait for the client's first bytes on every connection, and
// many servers send first.
func (p *planner) planUnknownRequests() {
	at, more := p.family.at(p.family.wildcard[0], httpPort)
	if !p.in.byName || p.egress.listener != nil || p.visited != nil || !p.selects(at) ||
		p.drafts[at] != nil || p.isTaken(at) {
		return
	}
	d := &draft{listenAddress: at, name: at.name(), more: more, bind: p.at.bound}
	d.http = p.newHTTP(d)
	p.drafts[at] = d
}

// httpPort is the default port of HTTP (RFC 9110, section 4.2.1).
const httpPort = 80

// draftAt returns the draft of address with the port of b, which it creates if needed. It marks the
// draft as bound if the egress listener is, and adds the Sidecar to its origins if that has a port.
// It returns nil if the address is only visited or not to be planned (selects), or if an egress
// listener with a port has it. If the proxy itself uses the address or may not listen there, it
// records a conflict and returns nil.
func (p *planner) draftAt(b servicePort, address string) *draft {
	at, more := p.family.at(address, b.port.Number)
	if !p.selects(at) {
		return nil
	}
	d := p.drafts[at]
	switch {
	case d == nil && p.isTaken(at):
		c := newConflict(at.name(), b, config.Key{}, candidate{})
		c.Forbidden = p.isForbidden(at)
		p.plan.conflicts = append(p.plan.conflicts, c)
		return nil
	case d == nil:
		d = &draft{listenAddress: at, name: at.name(), more: more}
		p.drafts[at] = d
	case d.locked:
		return nil
	}
	d.bind = d.bind || p.at.bound
	if p.egress.listener.GetPort() != nil {
		d.from = append(d.from, p.in.sidecar.Key)
	}
	return d
}

// selects reports whether to plan the listener at an address. While addresses are only visited, it
// records the address in p.visited and returns false.
func (p *planner) selects(at listenAddress) bool {
	if p.visited != nil {
		p.visited[at] = true
		return false
	}
	return p.only == nil || p.only[at]
}

// isForbidden reports whether the proxies may not listen at an address: the listener is bound, and
// they lack the privileges for its port. Port 0 is that of Unix domain sockets.
func (p *planner) isForbidden(at listenAddress) bool {
	return p.at.bound && p.in.class.unprivileged && at.port != 0 && at.port < view.FirstUnprivilegedPort
}

// isTaken reports whether there is no listener at an address, because it is forbidden or the proxy
// itself uses it: any of its ports if the listener is bound, otherwise its HTTP proxy on loopback
// and the reserved ports on the wildcard address.
func (p *planner) isTaken(at listenAddress) bool {
	switch {
	case p.at.bound:
		return at.port != 0 && isOccupied(p.in.settings, at.port) || p.isForbidden(at)
	case at.address == p.family.loopback[0]:
		return at.port == p.in.settings.HTTPProxyPort()
	default:
		return at.address == p.family.wildcard[0] && isReserved(p.in.settings, at.port)
	}
}

// addProblem adds a Warning about a field of an object, at an address, to the plan. It adds none if
// the address is not to be planned (selects). The zero address is for Problems of the Sidecar
// itself. Only complete plans have these, because a change of the Sidecar plans everything.
func (p *planner) addProblem(at listenAddress, key config.Key, field, reason string) {
	l := located{Problem: warning(key, field, reason)}
	if at == (listenAddress{}) {
		if p.only == nil && p.visited == nil {
			p.plan.problems = append(p.plan.problems, l)
		}
		return
	}
	if p.selects(at) {
		l.listener = at.name()
		p.plan.problems = append(p.plan.problems, l)
	}
}
