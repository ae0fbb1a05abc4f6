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

// unknownHostPort is the port on which hosts of VirtualServices are served that no service has.
const unknownHostPort = 80

// planned is one virtual host, and what it came from.
type planned struct {
	hostInput
	// from are the objects that shape it.
	from []config.Key
	// unused are routes that turned out to be none. They are kept to be found again.
	unused []*routes
}

// planner says which virtual hosts one RouteConfiguration has.
type planner struct {
	g     *Generator
	v     *view.View
	scope *scope
	form  portForm
	// from and unused are those of the virtual host under way; see planned.
	from   []config.Key
	unused []*routes
}

// all plans the virtual hosts that a request is answered with, sorted by name.
func (p *planner) all(r request) []*planned {
	var list []*planned
	switch {
	case r.host != "":
		if one := p.host(r.port, r.host); one != nil {
			list = append(list, one)
		}
	case r.port == 0:
		for _, port := range p.scope.ports() {
			list = append(list, p.port(port)...)
		}
	default:
		list = p.port(r.port)
	}
	slices.SortFunc(list, comparePlanned)
	return list
}

func comparePlanned(a, b *planned) int { return strings.Compare(a.names.name, b.names.name) }

// port plans the virtual hosts of one port: one for each service, and one for each host of a VirtualService that is no
// service there.
func (p *planner) port(number uint32) []*planned {
	services := p.scope.services[number]
	list := make([]*planned, 0, len(services))
	for _, svc := range services {
		list = append(list, p.service(svc, number))
	}
	seen := map[mesh.Hostname]bool{}
	for _, vs := range p.scope.tried {
		for _, h := range vs.Hosts {
			if seen[h] {
				continue
			}
			seen[h] = true
			if p.scope.service(number, h) == nil {
				if one := p.unknown(h, number); one != nil {
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// host plans the virtual host of a service, or of a host that a VirtualService names; nil if there is none.
func (p *planner) host(port uint32, host mesh.Hostname) *planned {
	svc := p.scope.service(port, host)
	switch {
	case svc != nil:
		return p.service(svc, port)
	case p.form == anyHost:
		return nil
	default:
		return p.unknown(host, port)
	}
}

// service plans the virtual host of a service. Of the VirtualServices for it the first that has a route for this View's
// proxies counts, and counts whole.
func (p *planner) service(svc *mesh.Service, port uint32) *planned {
	in := p.namesInput(svc.Host, port)
	in.service, in.reach = svc, reachOf(svc.Host, p.v.Key.Domain)
	p.from, p.unused = svc.AppendObjects(nil), nil
	if others := p.scope.aliases[svc.Host]; len(others) > 0 {
		var aliases []alias
		for _, o := range others {
			aliases = append(aliases, alias{o, reachOf(o.Host, p.v.Key.Domain)})
			p.from = append(p.from, o.From)
		}
		in.aliases = memo.ListOf(aliases)
	}
	var h hostInput
	for vs := range p.scope.rulesFor(svc.Host) {
		if h.routes = p.routes(vs, port); h.routes != nil {
			break
		}
	}
	if h.routes == nil {
		h.retry, h.session = p.v.Settings.Mesh.GetDefaultHttpRetryPolicy(), sessionOf(p.v, svc)
		if rule := p.v.DestinationRule(svc.Host); hashes(rule) {
			h.rule = rule
			p.from = append(p.from, rule.From...)
		}
	}
	return p.made(h, in)
}

// unknown plans the virtual host of a host that no service has; nil if there is none: not on a port that the VirtualServices
// that name it have nothing to do with, and not where none of their routes is for this View's proxies.
func (p *planner) unknown(host mesh.Hostname, port uint32) *planned {
	if p.scope.covers(port, host) {
		return nil
	}
	p.from, p.unused = nil, nil
	for _, vs := range p.scope.naming.Get(host) {
		if port != unknownHostPort && !p.scope.concerns(vs, port) {
			continue
		}
		if r := p.routes(vs, port); r != nil {
			return p.made(hostInput{routes: r}, p.namesInput(host, port))
		}
	}
	return nil
}

func (p *planner) namesInput(host mesh.Hostname, port uint32) namesInput {
	return namesInput{host: host, port: port, form: p.form, ipv4: p.v.Key.IPv4, ipv6: p.v.Key.IPv6}
}

func (p *planner) made(h hostInput, in namesInput) *planned {
	h.names = p.g.names.Get(in)
	h.attempts = sendsAttempts(p.v)
	return &planned{hostInput: h, from: p.from, unused: p.unused}
}

// routes gives the routes of a VirtualService, nil if it has none for this View's proxies.
func (p *planner) routes(vs *snapshot.VirtualService, port uint32) *routes {
	in, from := p.input(vs, routesInput{port: port})
	r := p.g.routes.Get(in)
	if len(r.encoded) == 0 {
		p.unused = append(p.unused, r)
		return nil
	}
	p.from = append(p.from, from...)
	return r
}

// input fills in what the routes of a VirtualService depend on besides where requests were caught, and gives the objects that
// have a part in it.
func (p *planner) input(vs *snapshot.VirtualService, in routesInput) (routesInput, []config.Key) {
	in.uses, in.retry = p.g.uses.Get(vs), p.v.Settings.Mesh.GetDefaultHttpRetryPolicy()
	in.forwarded = proxyHeaders(p.v).GetXForwardedHost().GetEnabled().GetValue()
	from := vs.From
	if len(in.uses.sources) > 0 {
		in.sources = sources(p.v, in.uses.sources)
	}
	var targets []target
	for _, host := range in.uses.hosts {
		t := target{host: host, service: destination.Host(p.v, host)}
		t.session = sessionOf(p.v, p.v.Service(t.service))
		if rule := p.v.DestinationRule(t.service); hashes(rule) {
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

// hostPort is where a virtual host is.
type hostPort struct {
	port uint32
	host mesh.Hostname
}

// touched gives the hosts of a request's answer that the VirtualServices may shape.
func (p *planner) touched(r request, list []*snapshot.VirtualService) map[hostPort]bool {
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
				p.scope.eachOf(port, h, func(host mesh.Hostname) { places[hostPort{port, host}] = true })
			}
		}
	}
	return places
}
