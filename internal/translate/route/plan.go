package route

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// unknownHostPort is the port on which the hosts of VirtualServices without a service are routed.
const unknownHostPort = 80

// planned is one virtual host, with the objects that it derives from.
type planned struct {
	hostInput
	// from are the objects that affect it.
	from []config.Key
	// unused are empty routes. They are referenced so that they stay cached.
	unused []*routes
	bound  []*boundRoutes
	// service is nil for a host without one.
	service *mesh.Service
	// appliesByAddress is set if routes of the Gateway API apply to the addresses of the service,
	// namedByAddress also if such routes are for other proxies only.
	appliesByAddress, namedByAddress bool
}

// planner plans the virtual hosts of one RouteConfiguration.
type planner struct {
	g     *Generator
	v     *view.View
	scope *scope
	form  portForm
	// from and unused belong to the current virtual host; see planned.
	from   []config.Key
	unused []*routes
	bound  []*boundRoutes
}

// planAll plans all virtual hosts of a RouteConfiguration, sorted by name: of one host if r.host is
// set, of all ports if r.port is 0, otherwise of the port. The list is empty if there are none.
func (p *planner) planAll(r request) []*planned {
	var list []*planned
	switch {
	case r.host != "":
		if one := p.planHost(r.port, r.host); one != nil {
			list = append(list, one)
		}
	case r.port == 0:
		for _, port := range p.scope.ports() {
			list = append(list, p.planPort(port)...)
		}
	default:
		list = p.planPort(r.port)
	}
	slices.SortFunc(list, comparePlanned)
	return list
}

// comparePlanned orders virtual hosts by name.
func comparePlanned(a, b *planned) int { return strings.Compare(a.names.name, b.names.name) }

// planPort plans the virtual hosts of one port: one for each service, and one for each host of a
// VirtualService that matches no service. A host of several VirtualServices gets one; planUnknown
// may yield none for it.
func (p *planner) planPort(number uint32) []*planned {
	services := p.scope.services[number]
	list := make([]*planned, 0, len(services))
	for _, svc := range services {
		list = append(list, p.planService(svc, number))
	}
	seen := map[mesh.Hostname]bool{}
	for _, vs := range p.scope.tried {
		for _, h := range vs.Hosts {
			if seen[h] {
				continue
			}
			seen[h] = true
			if p.scope.service(number, h) == nil {
				if one := p.planUnknown(h, number); one != nil {
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// planHost plans one virtual host: the virtual host of the service with the host at the port, else
// of VirtualServices which name the host (planUnknown). It returns nil if there is neither, and for
// a host without a service if p.form is anyHost.
func (p *planner) planHost(port uint32, host mesh.Hostname) *planned {
	svc := p.scope.service(port, host)
	switch {
	case svc != nil:
		return p.planService(svc, port)
	case p.form == anyHost:
		return nil
	default:
		return p.planUnknown(host, port)
	}
}

// planService plans the virtual host of a service, and is never nil. It has the routes of the first
// of the service's VirtualServices that has any for the View's proxies; VirtualServices are not
// merged, except VirtualServices converted from the Gateway API. Without any it has the default
// route (serviceRoute). It resets p.from, p.unused and p.bound.
func (p *planner) planService(svc *mesh.Service, port uint32) *planned {
	in := p.namesInput(svc.Host, port)
	in.service, in.reach = svc, reachOf(svc.Host, p.v.Key.Domain)
	p.from, p.unused, p.bound = svc.AppendObjects(nil), nil, nil
	if others := p.scope.aliases[svc.Host]; len(others) > 0 {
		var aliases []alias
		for _, o := range others {
			aliases = append(aliases, alias{o, reachOf(o.Host, p.v.Key.Domain)})
			p.from = append(p.from, o.From)
		}
		in.aliases = memo.ListOf(aliases)
	}
	h := hostInput{routes: p.extendedRoutes(svc.Host, port)}
	applies := h.routes != nil
	if h.routes == nil {
		for vs := range p.scope.rulesFor(svc.Host) {
			if h.routes = p.routes(vs, port); h.routes != nil {
				break
			}
		}
	}
	if h.routes == nil {
		h.retry, h.session = p.v.Settings.Mesh.GetDefaultHttpRetryPolicy(), sessionOf(p.v, svc)
		if rule := p.v.DestinationRule(svc.Host); hasHashPolicy(rule) {
			h.rule = rule
			p.from = append(p.from, rule.From...)
		}
	}
	one := p.newPlanned(h, in)
	one.service, one.appliesByAddress = svc, applies
	one.namedByAddress = applies || p.scope.hasRoutesByAddress(svc.Host, port)
	return one
}

// planUnknown plans the virtual host of a host without a service. It has the routes of the first
// VirtualService naming it that has any for the View's proxies. If a service of the port matches
// the host, it returns nil and changes nothing. Otherwise it resets p.from, p.unused and p.bound,
// and returns nil if no VirtualService that applies to the port has routes.
func (p *planner) planUnknown(host mesh.Hostname, port uint32) *planned {
	if p.scope.hasService(port, host) {
		return nil
	}
	p.from, p.unused, p.bound = nil, nil, nil
	for _, vs := range p.scope.naming.Get(host) {
		if port != unknownHostPort && !p.scope.concerns(vs, port) {
			continue
		}
		if r := p.routes(vs, port); r != nil {
			return p.newPlanned(hostInput{routes: r}, p.namesInput(host, port))
		}
	}
	return nil
}

// namesInput returns the input of the domains of a virtual host, without a service.
func (p *planner) namesInput(host mesh.Hostname, port uint32) namesInput {
	return namesInput{
		host: host, port: port, form: p.form, relative: p.v.Settings.Features.RelativeHosts,
		ipv4: p.v.Key.IPv4, ipv6: p.v.Key.IPv6,
	}
}

// newPlanned returns the virtual host h with the names of in, and with p.from, p.unused and
// p.bound. Whether it counts attempts depends on the View (sendsAttempts).
func (p *planner) newPlanned(h hostInput, in namesInput) *planned {
	h.names = p.g.names.Get(in)
	h.attempts = sendsAttempts(p.v)
	return &planned{hostInput: h, from: p.from, unused: p.unused, bound: p.bound}
}

// routes returns the routes of a VirtualService on a port, or nil if it has none for the View's
// proxies. It adds the keys of the objects behind them to p.from or, if there are none, the empty
// routes to p.unused.
func (p *planner) routes(vs *snapshot.VirtualService, port uint32) *routes {
	in, from := p.routesInput(vs, routesInput{port: port})
	r := p.g.routes.Get(in)
	if len(r.encoded) == 0 {
		p.unused = append(p.unused, r)
		return nil
	}
	p.from = append(p.from, from...)
	return r
}

// routesInput returns in with everything that the routes of a VirtualService depend on in the View,
// and the keys of the objects that contribute to them: the VirtualService and DestinationRules with
// a hash policy.
func (p *planner) routesInput(vs *snapshot.VirtualService, in routesInput) (routesInput, []config.Key) {
	in.uses, in.retry = p.g.uses.Get(vs), p.v.Settings.Mesh.GetDefaultHttpRetryPolicy()
	in.shadowHosts = p.v.Settings.Features.ShadowHosts
	in.forwarded = proxyHeaders(p.v).GetXForwardedHost().GetEnabled().GetValue()
	from := vs.From
	if len(in.uses.sources) > 0 {
		in.sources = matchSources(p.v, in.uses.sources)
	}
	var targets []target
	for _, host := range in.uses.hosts {
		t := target{host: host, service: destination.Host(p.v, host)}
		t.session, t.missing = sessionOf(p.v, p.v.Service(t.service)), p.v.Service(t.service) == nil
		if rule := p.v.DestinationRule(t.service); hasHashPolicy(rule) {
			t.rule = rule
			from = append(slices.Clip(from), rule.From...)
		}
		if in.gateway != "" {
			t.port = onlyPort(p.v.Service(t.service))
		}
		if t != (target{host: host, service: host}) {
			targets = append(targets, t)
		}
	}
	in.targets = memo.ListOf(targets)
	return in, from
}

// hostPort identifies a virtual host.
type hostPort struct {
	port uint32
	host mesh.Hostname
}

// affectedHosts returns the virtual hosts of the RouteConfiguration r that changes of the
// VirtualServices in list may affect. They need not exist. For a RouteConfiguration of one host,
// that is this host if list is not empty.
func (p *planner) affectedHosts(r request, list []*snapshot.VirtualService) map[hostPort]bool {
	places := map[hostPort]bool{}
	if r.host != "" && len(list) > 0 {
		places[hostPort{r.port, r.host}] = true
		return places
	}
	ports := []uint32{r.port}
	if r.port == 0 {
		ports = append(slices.Collect(maps.Keys(p.scope.services)), unknownHostPort)
	}
	for _, port := range ports {
		for _, vs := range list {
			for _, h := range vs.Hosts {
				p.scope.forEachHost(port, h, func(host mesh.Hostname) { places[hostPort{port, host}] = true })
			}
		}
	}
	return places
}
