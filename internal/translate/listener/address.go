package listener

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// listenAddress is the address and port of a listener. Every one has its own listener, named after
// it. Envoy refuses two listeners with the same address. If several addresses shared a listener, an
// address that moves to another listener would exist twice during an update.
type listenAddress struct {
	address string
	port    uint32
}

// family is the wildcard and loopback addresses of proxies. The first one names listeners, and the
// other one, if any, is additional: so the same addresses always belong together.
type family struct {
	wildcard, loopback []string
	ipv4, ipv6         bool
}

// familyOf returns the addresses of proxies with Key k. Proxies without known addresses are assumed
// to have IPv4 only.
func familyOf(k view.Key) family {
	switch {
	case k.IPv4 && k.IPv6:
		return family{[]string{"0.0.0.0", "::"}, []string{"127.0.0.1", "::1"}, true, true}
	case k.IPv6:
		return family{[]string{"::"}, []string{"::1"}, false, true}
	default:
		return family{[]string{"0.0.0.0"}, []string{"127.0.0.1"}, true, false}
	}
}

// includes reports whether an address, which may be IPv4-mapped, is of a family that the proxies
// have.
func (f family) includes(a netip.Addr) bool {
	a = a.Unmap()
	return a.Is4() && f.ipv4 || a.Is6() && f.ipv6
}

// at returns the address that names the listener for address and port, and its additional
// addresses. A wildcard or loopback address becomes the first of the family, with the other as
// additional. Any other address is returned as it is.
func (f family) at(address string, port uint32) (at listenAddress, more []string) {
	for _, group := range [][]string{f.wildcard, f.loopback} {
		if slices.Contains(group, address) {
			return listenAddress{group[0], port}, group[1:]
		}
	}
	return listenAddress{address, port}, nil
}

// Ports of a proxy that are not in MeshConfig.
const (
	statusPort = 15021 // the bootstrap's listener for readiness
	statsPort  = 15090 // the bootstrap's listener for metrics
	debugPort  = 15004 // the agent's
	dnsPort    = 15053 // the agent's
)

// isReserved reports whether every proxy listens on the port at all addresses: status, metrics, and
// the captured outbound and inbound connections.
func isReserved(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	return port == statusPort || port == statsPort || port == uint32(m.GetProxyListenPort()) ||
		port == uint32(m.GetProxyInboundListenPort())
}

// isOccupied reports whether every proxy already listens on the port, on any address: its reserved
// ports, and its debug, DNS, admin, status and HTTP proxy ports.
func isOccupied(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	proxy := m.GetDefaultConfig()
	return isReserved(s, port) || port == debugPort || port == dnsPort || port == uint32(proxy.GetProxyAdminPort()) ||
		port == uint32(proxy.GetStatusPort()) || port == s.HTTPProxyPort()
}

// planPort plans the listeners of a service port: at the egress listener's address if it has one.
// Otherwise HTTP shares one listener, headless services have one per endpoint, and others one per
// address.
func (p *planner) planPort(b servicePort) {
	switch {
	case p.at.address != "":
		p.planAddress(b, p.at.address)
	case b.protocol.IsHTTP():
		p.planHTTP(b)
	case isPerEndpoint(b.serviceInput):
		p.planEndpoints(b)
	default:
		p.planAddresses(b)
	}
}

// planHTTP plans an HTTP port: all services with the port share the wildcard address, and requests
// are routed by host. If the proxy itself uses the port, connections to the addresses of the
// service are forwarded as TCP, with a Problem. A service without addresses is then a conflict, and
// nothing is planned.
func (p *planner) planHTTP(b servicePort) {
	if !isReserved(p.in.settings, b.port.Number) {
		shared := p.draftAt(b, p.family.wildcard[0])
		if shared != nil {
			p.addHTTP(shared, b)
		}
		p.addRoutedAddresses(b, shared)
		return
	}
	addresses, _ := p.addresses(b.service)
	if len(addresses) == 0 {
		p.planAddress(b, p.family.wildcard[0]) // It reports the conflict.
		return
	}
	forwarded := b
	forwarded.protocol = mesh.TCP
	for _, a := range addresses {
		p.planAddress(forwarded, a)
	}
	p.addProblem(b.service.From, "spec.ports", fmt.Sprintf(
		"port %d of %s is one of the proxy's own: connections to the service are forwarded unread",
		b.port.Number,
		b.service.Host,
	))
}

// addRoutedAddresses adds a listener for each address of a service to whose port routes of the
// Gateway API apply: they apply to all requests that are sent to the address, whatever their host
// is. An address that several services of the port share identifies none of them, and gets none.
// While addresses are only visited, it visits all addresses of the service.
//
// Requests at the shared wildcard address that name the service are routed by their address, if it
// belongs to another service. So it sets mesh.DestinationHeader in shared, the listener of that
// address, which may be nil. It does nothing without traffic capture.
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
			p.addHTTP(d, b)
			d.http.Route = string(b.service.Host) + ":" + formatNumber(b.port.Number)
		}
		if shared != nil && !shared.bind {
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

// planAddresses plans the service's own addresses and ranges. A service without valid specific
// addresses is planned at the wildcard address instead. If it has some, but none that these proxies
// can reach, it has no listener.
func (p *planner) planAddresses(b servicePort) {
	addresses, ranges := p.addresses(b.service)
	if len(ranges) > 0 {
		if d := p.draftAt(b, p.family.wildcard[0]); d != nil {
			p.addRanges(d, b, ranges)
		}
	}
	for _, a := range addresses {
		p.planAddress(b, a)
	}
	if !slices.ContainsFunc(b.service.Addresses, isSpecific) {
		p.planAddress(b, p.family.wildcard[0])
	}
}

// addresses returns the service's single addresses and its ranges that the proxies can reach,
// canonical and without duplicates. It leaves out invalid and unspecified addresses, and addresses
// of another IP family.
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

// isSpecific reports whether an address or range of a service identifies it. It returns false for
// invalid and unspecified addresses, and for the range of all addresses.
func isSpecific(text string) bool {
	prefix, ok := parsePrefix(text)
	return ok && prefix.Bits() > 0 && !(prefix.IsSingleIP() && prefix.Addr().IsUnspecified())
}

// parsePrefix parses an IP or a CIDR; ok is false for other texts. IPv4-mapped IPv6 becomes IPv4,
// and the bits beyond the prefix are cleared.
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

// appendOnce appends s to list, unless list contains it.
func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
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
// each with the service's port, which callers connect to.
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

// planEndpoint plans an address of an endpoint. It ignores invalid and unspecified addresses, and
// addresses of another IP family.
func (p *planner) planEndpoint(b servicePort, address string) {
	if a, err := netip.ParseAddr(address); err == nil && !a.IsUnspecified() && p.family.includes(a) {
		p.planAddress(b, a.Unmap().WithZone("").String())
	}
}

// planAddress adds a service port to the draft of an address, by its protocol. UDP and other
// protocols without a case are TCP. It does nothing if draftAt returns no draft.
func (p *planner) planAddress(b servicePort, address string) {
	d := p.draftAt(b, address)
	switch {
	case d == nil:
	case b.protocol.IsHTTP():
		p.addHTTP(d, b)
	case b.protocol.IsTLS():
		p.addTLS(d, b, nil)
	case b.protocol == mesh.Auto:
		p.addAuto(d, b)
	default:
		p.addTCP(d, b)
	}
}

// addUnknownRequests plans a listener for requests to unknown hosts on port 80, where they are most
// likely sent, even without a service: their destination is resolved by DNS. It does nothing if the
// outbound policy does not resolve hosts, the current egress listener is one of the Sidecar, or the
// address is not to be planned, planned already or taken.
//
// Detecting HTTP on every port would wait for the client's first bytes on every connection, and
// many servers send first.
func (p *planner) addUnknownRequests() {
	at, more := p.family.at(p.family.wildcard[0], httpPort)
	if !p.in.byName || p.egress.listener != nil || p.visited != nil || p.only != nil && !p.only[at] ||
		p.drafts[at] != nil || p.isTaken(at) {
		return
	}
	p.drafts[at] = &draft{listenAddress: at,
		name: listenerName(at.address, at.port),
		more: more,
		bind: p.at.bound,
		http: &HTTP{
			StatPrefix: statPrefix(mesh.Outbound, at.address, at.port),
			Route:      formatNumber(at.port),
			Lookup:     p.requestLookup(),
		}}
}

// httpPort is the default port of HTTP (RFC 9110, section 4.2.1).
const httpPort = 80

// draftAt returns the draft of address with the port of b, which it creates if needed, and makes
// the address the current one. It marks the draft as bound if the egress listener is, and adds the
// Sidecar to its origins if that has a port. It returns nil if the address is only visited or not
// to be planned (selectAddress), or if an egress listener with a port has it. If the proxy itself
// uses the address, it records a conflict and returns nil.
func (p *planner) draftAt(b servicePort, address string) *draft {
	at, more := p.family.at(address, b.port.Number)
	if config.IsSocket(address) {
		at.port = 0
	}
	if !p.selectAddress(at) {
		return nil
	}
	d := p.drafts[at]
	switch {
	case d == nil && p.isTaken(at):
		p.addConflict(at, b, candidate{service: b.service}, candidate{})
		return nil
	case d == nil:
		d = &draft{listenAddress: at, name: listenerName(at.address, at.port), more: more}
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

// selectAddress makes an address the current one (p.here), and reports whether to plan it. While
// addresses are only visited (p.visited), it records the address there and returns false.
func (p *planner) selectAddress(at listenAddress) bool {
	p.here = at
	if p.visited != nil {
		p.visited[at] = true
		return false
	}
	return p.only == nil || p.only[at]
}

// isTaken reports whether the proxy itself uses an address: any of its ports if the listener is
// bound, otherwise its HTTP proxy on loopback and the reserved ports on the wildcard address.
func (p *planner) isTaken(at listenAddress) bool {
	switch {
	case p.at.bound:
		return at.port != 0 && isOccupied(p.in.settings, at.port)
	case at.address == p.family.loopback[0]:
		return at.port == p.in.settings.HTTPProxyPort()
	default:
		return at.address == p.family.wildcard[0] && isReserved(p.in.settings, at.port)
	}
}

// addProblem adds a Warning about a field of an object, at the current address, to the plan. It
// adds none while addresses are only visited, or if the current address is not to be planned.
func (p *planner) addProblem(key config.Key, field, reason string) {
	if p.visited != nil || p.only != nil && !p.only[p.here] {
		return
	}
	l := located{
		Problem: config.Problem{
			Code:     code.ListenerConflict,
			Key:      key,
			Field:    field,
			Reason:   reason,
			Severity: config.Warning,
		},
	}
	if p.here != (listenAddress{}) {
		l.listener = listenerName(p.here.address, p.here.port)
	}
	p.plan.problems = append(p.plan.problems, l)
}
