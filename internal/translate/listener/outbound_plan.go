package listener

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

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

// withoutPlaces returns the Problems of list, in its order, without their listeners.
func withoutPlaces(list []located) []config.Problem {
	out := make([]config.Problem, len(list))
	for i, l := range list {
		out[i] = l.Problem
	}
	return out
}

// compareLocated compares Problems by listener, then by config.Problem.Compare.
func compareLocated(a, b located) int {
	return cmp.Or(strings.Compare(a.listener, b.listener), a.Compare(b.Problem))
}

// planner plans the outbound listeners of a class. Every port of every service is a candidate for
// its addresses, older services first. The listener of an address depends only on its candidates. A
// planner is used once, by one goroutine: by planOutbound for all addresses, or by
// Generator.replan, which sets only and ports, or visited.
type planner struct {
	chainPlanner
	drafts map[listenAddress]*draft
	// plan has the conflicts and Problems that belong to no draft, until finish completes it.
	plan *outboundPlan

	// only are the addresses to plan, nil for all. ports are their ports, with true if one of them
	// is a wildcard or socket.
	only  map[listenAddress]bool
	ports map[uint32]bool
	// visited, if not nil, collects the addresses of candidates instead of planning them.
	visited map[listenAddress]bool

	// egress is the current egress listener, and owners are the owners of addresses in it, by port.
	egress *egressInput
	owners map[uint32]destination.AddressOwners
}

// newPlanner returns a planner of all addresses without drafts.
func newPlanner(v *view.View, in *outboundInput) *planner {
	return &planner{
		chainPlanner: chainPlanner{router: newRouter(v, in)},
		drafts:       map[listenAddress]*draft{},
		plan:         new(outboundPlan),
	}
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

// planServices makes e the current egress listener and plans the listeners of its services, in
// their order: only at e's port if it has one (planEgressPort). Otherwise it plans them at all
// their ports, and then the listener of unknown requests (planUnknownRequests). It plans nothing if
// e cannot be served (begin).
func (p *planner) planServices(e *egressInput, services iter.Seq[serviceInput]) {
	switch {
	case !p.begin(e):
	case e.listener.GetPort() != nil:
		p.planEgressPort(e.listener, services)
	default:
		p.planAllPorts(services)
		p.planUnknownRequests()
	}
}

// begin makes e the current egress listener, with its binding (p.at), and indexes its rules and
// aliases. A bound listener without a bind address is at the loopback address. It reports whether e
// can be served: if the bind address is invalid, it adds a Problem and returns false.
func (p *planner) begin(e *egressInput) bool {
	p.egress, p.owners = e, nil
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
		bound: p.in.class.direct || l.GetCaptureMode() == networking.CaptureMode_NONE || config.IsSocket(l.GetBind()),
	}
	switch {
	case l.GetBind() != "":
		var ok bool
		if p.at.address, ok = parseBind(l.GetBind()); !ok {
			p.addProblem(listenAddress{}, p.in.sidecar.Key, "spec.egress.bind",
				"nothing can be bound to "+l.GetBind()+": this listener is left out")
			return false
		}
	case p.at.bound:
		p.at.address = p.family.loopback[0]
	}
	return true
}

// planAllPorts plans all captured ports of services at their addresses. It first locks the existing
// drafts, which belong to egress listeners with a port, so that nothing is added to them. Aliases
// have no listeners.
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

// mayConcern reports whether a service port may be a candidate for one of the addresses to plan
// (p.only), or all are planned. It is cheaper than planning the port, and may return true for a
// port that turns out not to be one.
func (p *planner) mayConcern(b servicePort) bool {
	if p.only == nil {
		return true
	}
	shared, planned := p.ports[b.port.Number]
	if !planned || shared || p.at.address != "" || b.endpoints != nil || len(b.service.Addresses) == 0 {
		return planned
	}
	return slices.ContainsFunc(b.service.Addresses, func(a string) bool {
		// An IPv4 address has only one spelling; others may have several.
		return strings.ContainsAny(a, ":/") || p.only[listenAddress{a, b.port.Number}]
	})
}

// planEgressPort plans an egress listener with a port. Services without that port are ignored;
// without any service there is no listener. An HTTP proxy (isHTTPProxy) and a socket serve services
// with any port. While only some ports are planned (p.ports), it does nothing for another one.
//
// It adds a Problem and plans nothing if the protocol is not captured. It adds one for each service
// that has several ports if the listener is a socket and its protocol is not HTTP.
func (p *planner) planEgressPort(l *networking.IstioEgressListener, services iter.Seq[serviceInput]) {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	_, planned := p.ports[l.GetPort().GetNumber()]
	switch {
	case p.ports != nil && !planned && !config.IsSocket(l.GetBind()):
		return
	case isHTTPProxy(l):
		p.planHTTPProxyPort(l)
		return
	case !protocol.Captured():
		p.addProblem(listenAddress{}, p.in.sidecar.Key, "spec.egress.port.protocol",
			l.GetPort().GetProtocol()+" is not captured: this listener is left out")
		return
	}
	for s := range services {
		if s.service.Resolution == mesh.Alias {
			continue
		}
		port, ok := portFor(s.service, l.GetPort().GetNumber())
		switch {
		case !ok:
		case port.Number == 0 && !protocol.IsHTTP():
			p.addProblem(listenAddress{address: p.at.address}, p.in.sidecar.Key, "spec.egress.bind",
				fmt.Sprintf("connections to %s do not say which port of %s they are for", l.GetBind(), s.service.Host))
		default:
			p.planPort(servicePort{s, port, protocol})
		}
	}
}

// portFor returns the first captured port of a service with a listener's number; ok is false if
// there is none. 0, of a socket, means the only captured port of the service. If there are several,
// the result is a zero port and ok is true, because only requests name one.
func portFor(svc *mesh.Service, number uint32) (port mesh.Port, ok bool) {
	captured := slices.DeleteFunc(slices.Clone(svc.Ports), func(p mesh.Port) bool { return !p.Protocol.Captured() })
	if number == 0 {
		if len(captured) == 1 {
			return captured[0], true
		}
		return mesh.Port{}, len(captured) > 0
	}
	i := slices.IndexFunc(captured, func(p mesh.Port) bool { return p.Number == number })
	if i < 0 {
		return mesh.Port{}, false
	}
	return captured[i], true
}

// httpProxy is the protocol of a Sidecar's egress listener that clients use as their HTTP proxy.
// Services never have it.
const httpProxy = "HTTP_PROXY"

// isHTTPProxy reports whether clients use an egress listener as their HTTP proxy. l may be nil.
func isHTTPProxy(l *networking.IstioEgressListener) bool {
	return strings.EqualFold(l.GetPort().GetProtocol(), httpProxy)
}

// planHTTPProxyPort plans an egress listener that is an HTTP proxy, for services on any port, at
// the wildcard address unless it has another. It accepts absolute URLs, and resolves hosts if one
// of the services is dynamic or the outbound policy does. It plans nothing if the listener has no
// services or its address is taken.
func (p *planner) planHTTPProxyPort(l *networking.IstioEgressListener) {
	if len(p.egress.services) == 0 {
		return
	}
	b := servicePort{
		serviceInput: p.egress.services[0],
		port:         mesh.Port{Number: l.GetPort().GetNumber()},
		protocol:     mesh.HTTP,
	}
	address := p.at.address
	if address == "" {
		address = p.family.wildcard[0]
	}
	if d := p.draftAt(b, address); d != nil && d.http == nil {
		p.addHTTP(d, b)
		d.http.AbsoluteURL, d.httpOnly = true, true
		for _, s := range p.egress.services {
			if s.service.Resolution == mesh.DynamicDNS {
				d.http.Lookup = p.family.lookup
			}
		}
	}
}

// finish returns p.plan with the listeners of all drafts that are not empty, sorted by name. It
// adds the conflicts and Problems of all drafts to the ones that p.plan has, sorted by listener,
// equal Problems once.
func (p *planner) finish() *outboundPlan {
	p.plan.specs = make([]Spec, 0, len(p.drafts))
	for _, d := range slices.SortedFunc(
		maps.Values(p.drafts),
		func(a, b *draft) int { return strings.Compare(a.name, b.name) },
	) {
		if s, ok := d.toSpec(p.in.unknown); ok {
			p.plan.specs = append(p.plan.specs, s)
		}
		p.plan.conflicts = append(p.plan.conflicts, d.conflicts...)
		for _, x := range d.problems {
			p.plan.problems = append(p.plan.problems, located{d.name, x})
		}
	}
	slices.SortStableFunc(p.plan.conflicts, func(a, b Conflict) int { return strings.Compare(a.Listener, b.Listener) })
	slices.SortFunc(p.plan.problems, compareLocated)
	p.plan.problems = slices.Compact(p.plan.problems)
	return p.plan
}
