package listener

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/view"
)

// outboundPlan is the outbound listeners of a class.
type outboundPlan struct {
	specs     []Spec // sorted by name
	conflicts []Conflict
	problems  []config.Problem
}

// planner plans the outbound listeners of a class: every port of every service bids for its places, older services first.
type planner struct {
	in *outboundInput
	// v is asked for names of services only; the rest is in the input.
	v       *view.View
	family  family
	drafts  map[place]*draft
	targets map[mesh.Hostname]target
	plan    *outboundPlan

	// What follows is of the egress listener whose services bid.
	egress  *egressInput
	at      binding
	rules   l4Rules
	aliases map[mesh.Hostname][]mesh.Hostname
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
	p := &planner{
		in: in, v: v, family: familyOf(v.Key), plan: new(outboundPlan),
		drafts: map[place]*draft{}, targets: map[mesh.Hostname]target{},
	}
	for _, t := range in.targets {
		p.targets[t.host] = t
	}
	for i := range in.egress {
		if e := &in.egress[i]; p.begin(e) {
			if e.listener.GetPort() != nil {
				p.onPort(e.listener)
			} else {
				p.everything()
			}
		}
	}
	unknown := mesh.BlackHoleCluster
	if in.allowAny {
		unknown = mesh.PassthroughCluster
	}
	p.plan.specs = make([]Spec, 0, len(p.drafts))
	for _, d := range slices.SortedFunc(maps.Values(p.drafts), func(a, b *draft) int { return strings.Compare(a.name, b.name) }) {
		if !d.empty() {
			p.plan.specs = append(p.plan.specs, d.spec(unknown))
		}
	}
	slices.SortFunc(p.plan.problems, config.Problem.Compare)
	p.plan.problems = slices.Compact(p.plan.problems)
	return p.plan
}

// begin turns to an egress listener, and says whether it can be served.
func (p *planner) begin(e *egressInput) bool {
	p.egress = e
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

// everything lets all ports of all services bid, for places that no listener with a port has.
func (p *planner) everything() {
	for _, d := range p.drafts {
		d.locked = true
	}
	for _, s := range byAge(p.egress.services) {
		if s.service.Resolution == mesh.Alias {
			continue // another name for routes, no place of its own
		}
		for _, port := range s.service.Ports {
			if port.Protocol.Captured() {
				p.bid(bid{s, port, port.Protocol})
			}
		}
	}
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

func (p *planner) problem(key config.Key, field, reason string) {
	p.plan.problems = append(p.plan.problems, config.Problem{Key: key, Field: field, Reason: reason, Severity: config.Warning})
}
