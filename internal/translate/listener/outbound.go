package listener

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// outboundPlan is the planned outbound listeners of a class, or some of them.
type outboundPlan struct {
	specs     []Spec     // sorted by name
	conflicts []Conflict // sorted by listener
	problems  []located
}

// located is a Problem with the listener that it was found at, or "".
type located struct {
	listener string
	config.Problem
}

// configProblems returns the Problems of a plan.
func (p *outboundPlan) configProblems() []config.Problem { return withoutPlaces(p.problems) }

func withoutPlaces(list []located) []config.Problem {
	out := make([]config.Problem, len(list))
	for i, l := range list {
		out[i] = l.Problem
	}
	return out
}

// planner plans the outbound listeners of a class. Every port of every service is a candidate for
// its addresses, older services first. The listener of an address depends only on its candidates.
type planner struct {
	in *outboundInput
	// v is used only to resolve names of services; everything else is in the input.
	v       *view.View
	family  family
	drafts  map[listenAddress]*draft
	targets map[mesh.Hostname]target
	plan    *outboundPlan

	// only are the addresses to plan, nil for all. ports are their ports, with true if one of them
	// is a wildcard or socket.
	only  map[listenAddress]bool
	ports map[uint32]bool
	// visited, if not nil, collects the addresses of candidates instead of planning them.
	visited map[listenAddress]bool
	// here is the current address.
	here listenAddress

	// The following fields belong to the current egress listener.
	egress  *egressInput
	at      binding
	rules   l4Rules
	aliases map[mesh.Hostname][]mesh.Hostname
	owners  map[uint32]destination.AddressOwners // by port
}

func newPlanner(v *view.View, in *outboundInput) *planner {
	p := &planner{
		in: in, v: v, family: familyOf(v.Key), plan: new(outboundPlan),
		drafts: map[listenAddress]*draft{}, targets: map[mesh.Hostname]target{},
	}
	for _, t := range in.targets {
		p.targets[t.host] = t
	}
	return p
}

// binding is where a Sidecar binds an egress listener.
type binding struct {
	// address is the address to listen at; "" for the addresses of the services.
	address string
	bound   bool
}

// servicePort is a service port that is a candidate for connections.
type servicePort struct {
	serviceInput
	port mesh.Port
	// protocol is that of the port, or of the Sidecar's listener if it has one.
	protocol mesh.Protocol
}

// planOutbound plans all outbound listeners. Egress listeners of a Sidecar with a port precede the
// one without a port, which adds nothing to them.
func planOutbound(v *view.View, in *outboundInput) *outboundPlan {
	p := newPlanner(v, in)
	for i := range in.egress {
		e := &in.egress[i]
		e.sortByAge()
		p.planServices(e, e.byAge())
	}
	return p.finish()
}

// planServices plans the listeners of an egress listener's services, in their order. It plans
// nothing if the egress listener cannot be served (begin).
func (p *planner) planServices(e *egressInput, services iter.Seq[serviceInput]) {
	switch {
	case !p.begin(e):
	case e.listener.GetPort() != nil:
		p.planEgressPort(e.listener, services)
	default:
		p.planAllPorts(services)
		p.addUnknownRequests()
	}
}

// addUnknownRequests plans a listener for requests to unknown hosts on the port where they are most
// likely sent, even without a service: their destination is resolved by DNS. Detecting HTTP on
// every port would wait for the client's first bytes on every connection, and many servers send
// first.
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

// finish returns the finished plan: the listeners of all drafts that are not empty, by name, with
// sorted conflicts and Problems.
func (p *planner) finish() *outboundPlan {
	p.plan.specs = make([]Spec, 0, len(p.drafts))
	for _, d := range slices.SortedFunc(
		maps.Values(p.drafts),
		func(a, b *draft) int { return strings.Compare(a.name, b.name) },
	) {
		if !d.isEmpty() {
			p.plan.specs = append(p.plan.specs, d.toSpec(p.in.unknown))
		}
	}
	slices.SortStableFunc(p.plan.conflicts, func(a, b Conflict) int { return strings.Compare(a.Listener, b.Listener) })
	slices.SortFunc(p.plan.problems, compareLocated)
	p.plan.problems = slices.Compact(p.plan.problems)
	return p.plan
}

func compareLocated(a, b located) int {
	return cmp.Or(strings.Compare(a.listener, b.listener), a.Compare(b.Problem))
}

// begin selects an egress listener as the current one, and reports whether it can be served. If its
// bind address is invalid, it adds a Problem and returns false.
func (p *planner) begin(e *egressInput) bool {
	p.egress, p.here, p.owners = e, listenAddress{}, nil
	p.rules = newL4Rules(e.rules)
	p.aliases = map[mesh.Hostname][]mesh.Hostname{}
	for _, s := range e.services {
		if s.service.Resolution != mesh.Alias {
			continue
		}
		if host := destination.Host(p.v, s.service.Host); host != s.service.Host {
			p.aliases[host] = append(p.aliases[host], s.service.Host)
		}
	}
	l := e.listener
	p.at = binding{
		bound: p.in.class.direct || l.GetCaptureMode() == networking.CaptureMode_NONE || isSocket(l.GetBind()),
	}
	switch {
	case l.GetBind() != "":
		var ok bool
		if p.at.address, ok = parseBind(l.GetBind()); !ok {
			p.addProblem(
				p.in.sidecar.Key,
				"spec.egress.bind",
				"nothing can be bound to "+l.GetBind()+": this listener is left out",
			)
			return false
		}
	case p.at.bound:
		p.at.address = p.family.loopback[0]
	}
	return true
}

// planAllPorts plans all captured ports of services, except at addresses of egress listeners with a
// port. Aliases have no listeners.
func (p *planner) planAllPorts(services iter.Seq[serviceInput]) {
	for _, d := range p.drafts {
		d.locked = true
	}
	for s := range services {
		if s.service.Resolution == mesh.Alias {
			continue // An alias is a name for routes and has no address.
		}
		for _, port := range s.service.Ports {
			if b := (servicePort{s, port, port.Protocol}); port.Protocol.Captured() && p.mayConcern(b) {
				p.planPort(b)
			}
		}
	}
}

// mayConcern reports whether a service port may be a candidate for one of the addresses to plan. It
// returns true if all are planned. It is cheaper than planning the port, and may return true for a
// port that is none.
func (p *planner) mayConcern(b servicePort) bool {
	if p.only == nil {
		return true
	}
	everybody, planned := p.ports[b.port.Number]
	if !planned || everybody || p.at.address != "" || b.endpoints != nil || len(b.service.Addresses) == 0 {
		return planned
	}
	return slices.ContainsFunc(b.service.Addresses, func(a string) bool {
		// An IPv4 address has only one spelling; others may have several.
		return strings.ContainsAny(a, ":/") || p.only[listenAddress{a, b.port.Number}]
	})
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

// planAddress plans the listener of an address for a service port, by its protocol. Unknown
// protocols are TCP.
func (p *planner) planAddress(b servicePort, address string) {
	switch {
	case b.protocol.IsHTTP():
		p.addHTTP(b, address)
	case b.protocol.IsTLS():
		p.addTLS(b, address)
	case b.protocol == mesh.Auto:
		p.addAuto(b, address)
	default:
		p.addTCP(b, address)
	}
}

// draftAt returns the draft of an address and port, and creates it if needed. It returns nil if the
// address is not planned, belongs to an egress listener with a port, or is used by the proxy
// itself, which is a conflict.
func (p *planner) draftAt(b servicePort, address string) *draft {
	at, more := p.family.at(address, b.port.Number)
	if isSocket(address) {
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

// selectAddress makes an address the current one, and reports whether to plan it.
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
		return at.port == uint32(p.in.settings.Mesh.GetProxyHttpPort())
	default:
		return at.address == p.family.wildcard[0] && isReserved(p.in.settings, at.port)
	}
}

// addProblem adds a Warning about an object at the current address. It adds none while addresses
// are only visited, or at an address that is not planned.
func (p *planner) addProblem(key config.Key, field, reason string) {
	if p.visited != nil || p.only != nil && !p.only[p.here] {
		return
	}
	l := located{Problem: config.Problem{Code: code.ListenerConflict, Key: key, Field: field, Reason: reason, Severity: config.Warning}}
	if p.here != (listenAddress{}) {
		l.listener = listenerName(p.here.address, p.here.port)
	}
	p.plan.problems = append(p.plan.problems, l)
}
