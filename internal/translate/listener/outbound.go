package listener

import (
	"cmp"
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

// outboundPlan is the outbound listeners of a class, or those of some places.
type outboundPlan struct {
	specs     []Spec     // sorted by name
	conflicts []Conflict // sorted by listener
	problems  []located
}

// located is a Problem and the listener that it was found at, "" for none.
type located struct {
	listener string
	config.Problem
}

// found gives the Problems of a plan.
func (p *outboundPlan) found() []config.Problem { return withoutPlaces(p.problems) }

func withoutPlaces(list []located) []config.Problem {
	out := make([]config.Problem, len(list))
	for i, l := range list {
		out[i] = l.Problem
	}
	return out
}

// planner plans the outbound listeners of a class: every port of every service bids for its places, older services first.
// What becomes of one place depends on nothing but who bids for it.
type planner struct {
	in *outboundInput
	// v is asked for names of services only; the rest is in the input.
	v       *view.View
	family  family
	drafts  map[place]*draft
	targets map[mesh.Hostname]target
	plan    *outboundPlan

	// only are the places that are planned, nil for all; ports are their ports, and whether one of them is a wildcard or socket.
	only  map[place]bool
	ports map[uint32]bool
	// visited, where it is not nil, takes the places that are bid for, instead of their being planned.
	visited map[place]bool
	// here is the place that is bid for.
	here place

	// What follows is of the egress listener whose services bid.
	egress  *egressInput
	at      binding
	rules   l4Rules
	aliases map[mesh.Hostname][]mesh.Hostname
}

func newPlanner(v *view.View, in *outboundInput) *planner {
	p := &planner{
		in: in, v: v, family: familyOf(v.Key), plan: new(outboundPlan),
		drafts: map[place]*draft{}, targets: map[mesh.Hostname]target{},
	}
	for _, t := range in.targets {
		p.targets[t.host] = t
	}
	return p
}

// binding is where a Sidecar puts an egress listener.
type binding struct {
	// address is the one to listen at; "": wherever the services are called.
	address string
	bound   bool
}

// bid is a service port that wants connections.
type bid struct {
	serviceInput
	port mesh.Port
	// protocol is the port's, or what the Sidecar's listener says instead.
	protocol mesh.Protocol
}

// planOutbound plans all outbound listeners. Egress listeners of a Sidecar that have a port come before the one for
// everything, which adds nothing to what they have.
func planOutbound(v *view.View, in *outboundInput) *outboundPlan {
	p := newPlanner(v, in)
	for i := range in.egress {
		e := &in.egress[i]
		e.sortByAge()
		p.listen(e, e.byAge())
	}
	return p.finish()
}

// listen lets services of an egress listener bid, in their order.
func (p *planner) listen(e *egressInput, services iter.Seq[serviceInput]) {
	switch {
	case !p.begin(e):
	case e.listener.GetPort() != nil:
		p.onPort(e.listener, services)
	default:
		p.everything(services)
		p.unknownRequests()
	}
}

// unknownRequests has requests to hosts that nobody knows read where they are most likely to be sent, even if there is no
// service: where DNS is to say where they go they must be. To look for them everywhere would be to wait for the first bytes of
// every connection, and many a server speaks first.
func (p *planner) unknownRequests() {
	at, more := p.family.at(p.family.wildcard[0], httpPort)
	if !p.in.byName || p.egress.listener != nil || p.visited != nil || p.only != nil && !p.only[at] || p.drafts[at] != nil || p.taken(at) {
		return
	}
	p.drafts[at] = &draft{place: at, name: name(at.address, at.port), more: more, bind: p.at.bound, http: &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, at.address, at.port), Route: number(at.port), Lookup: p.anyName(),
	}}
}

// httpPort is the port of HTTP without another (RFC 9110, section 4.2.1).
const httpPort = 80

// finish gives what became of the bids.
func (p *planner) finish() *outboundPlan {
	p.plan.specs = make([]Spec, 0, len(p.drafts))
	for _, d := range slices.SortedFunc(maps.Values(p.drafts), func(a, b *draft) int { return strings.Compare(a.name, b.name) }) {
		if !d.empty() {
			p.plan.specs = append(p.plan.specs, d.spec(p.in.unknown))
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

// begin turns to an egress listener, and says whether it can be served.
func (p *planner) begin(e *egressInput) bool {
	p.egress, p.here = e, place{}
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
	p.at = binding{bound: p.in.class.direct || l.GetCaptureMode() == networking.CaptureMode_NONE || isSocket(l.GetBind())}
	switch {
	case l.GetBind() != "":
		var ok bool
		if p.at.address, ok = bindAddress(l.GetBind()); !ok {
			p.problem(p.in.sidecar.Key, "spec.egress.bind", "nothing can be bound to "+l.GetBind()+": this listener is left out")
			return false
		}
	case p.at.bound:
		p.at.address = p.family.loopback[0]
	}
	return true
}

// everything lets all ports of services bid, for places that no listener with a port has.
func (p *planner) everything(services iter.Seq[serviceInput]) {
	for _, d := range p.drafts {
		d.locked = true
	}
	for s := range services {
		if s.service.Resolution == mesh.Alias {
			continue // another name for routes, no place of its own
		}
		for _, port := range s.service.Ports {
			if b := (bid{s, port, port.Protocol}); port.Protocol.Captured() && p.concerns(b) {
				p.bid(b)
			}
		}
	}
}

// concerns says whether a service port may bid for one of the places that are planned. It costs less than to let it bid.
func (p *planner) concerns(b bid) bool {
	if p.only == nil {
		return true
	}
	everybody, planned := p.ports[b.port.Number]
	if !planned || everybody || p.at.address != "" || b.endpoints != nil || len(b.service.Addresses) == 0 {
		return planned
	}
	return slices.ContainsFunc(b.service.Addresses, func(a string) bool {
		// An IPv4 address is spelled in one way only; others may be spelled in several.
		return strings.ContainsAny(a, ":/") || p.only[place{a, b.port.Number}]
	})
}

// bid lets a service port bid for its places.
func (p *planner) bid(b bid) {
	switch {
	case p.at.address != "":
		p.take(b, p.at.address)
	case b.protocol.IsHTTP():
		p.takeHTTP(b)
	case perEndpoint(b.serviceInput):
		p.takeEndpoints(b)
	default:
		p.takeAddresses(b)
	}
}

// take bids for an address, in the way of the protocol.
func (p *planner) take(b bid, address string) {
	switch {
	case b.protocol.IsHTTP():
		p.http(b, address)
	case b.protocol.IsTLS():
		p.tls(b, address)
	case b.protocol == mesh.Auto:
		p.auto(b, address)
	default:
		p.tcp(b, address)
	}
}

// draft gives the draft at an address and port, nil if the bidder gets nothing there: of a listener that a Sidecar has
// named, because nobody else is meant to, and at a port of the proxy, because it is in use.
func (p *planner) draft(b bid, address string) *draft {
	at, more := p.family.at(address, b.port.Number)
	if isSocket(address) {
		at.port = 0
	}
	if !p.turnTo(at) {
		return nil
	}
	d := p.drafts[at]
	switch {
	case d == nil && p.taken(at):
		p.conflict(at, b, claimant{service: b.service}, claimant{})
		return nil
	case d == nil:
		d = &draft{place: at, name: name(at.address, at.port), more: more}
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

// turnTo turns to a place, and says whether it is planned.
func (p *planner) turnTo(at place) bool {
	p.here = at
	if p.visited != nil {
		p.visited[at] = true
		return false
	}
	return p.only == nil || p.only[at]
}

// taken says whether a place is one of the proxy's own.
func (p *planner) taken(at place) bool {
	switch {
	case p.at.bound:
		return at.port != 0 && occupied(p.in.settings, at.port)
	case at.address == p.family.loopback[0]:
		return at.port == uint32(p.in.settings.Mesh.GetProxyHttpPort())
	default:
		return at.address == p.family.wildcard[0] && reserved(p.in.settings, at.port)
	}
}

// problem notes what is wrong with an object at the place that is bid for.
func (p *planner) problem(key config.Key, field, reason string) {
	if p.visited != nil || p.only != nil && !p.only[p.here] {
		return
	}
	l := located{Problem: config.Problem{Key: key, Field: field, Reason: reason, Severity: config.Warning}}
	if p.here != (place{}) {
		l.listener = name(p.here.address, p.here.port)
	}
	p.plan.problems = append(p.plan.problems, l)
}
