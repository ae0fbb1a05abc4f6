package route

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/view"
)

// unknownHostPort is the port on which hosts of VirtualServices are served that no service has.
const unknownHostPort = 80

// planner lists the virtual hosts of one RouteConfiguration.
type planner struct {
	g     *Generator
	v     *view.View
	scope *scope
	form  portForm
	hosts []hostInput
	// from are the objects that shape any of them.
	from []config.Key
	// unused are routes that turned out to be none. They are kept to be found again.
	unused []*routes
}

// port adds the virtual hosts of one port: one for each service, and one for each host of a VirtualService that is no
// service there.
func (p *planner) port(number uint32) {
	p.hosts = slices.Grow(p.hosts, len(p.scope.services[number]))
	used := map[*snapshot.VirtualService]bool{}
	for _, svc := range p.scope.services[number] {
		p.service(svc, number, used)
	}
	seen := map[mesh.Hostname]bool{}
	for _, vs := range p.scope.rules {
		if number != unknownHostPort && !used[vs] {
			continue
		}
		for _, h := range vs.Hosts {
			if !seen[h] && !p.scope.covers(number, h) {
				seen[h] = p.unknown(vs, h, number)
			}
		}
	}
}

// service adds the virtual host of a service. Of the VirtualServices for it the first that has a route for this View's
// proxies counts, and counts whole; all that might are noted in used.
func (p *planner) service(svc *mesh.Service, port uint32, used map[*snapshot.VirtualService]bool) {
	in := p.namesInput(svc.Host, port)
	in.service, in.reach = svc, reachOf(svc.Host, p.v.Key.Domain)
	p.from = append(p.from, svc.From)
	if others := p.scope.aliases[svc.Host]; len(others) > 0 {
		var aliases []alias
		for _, o := range others {
			aliases = append(aliases, alias{o, reachOf(o.Host, p.v.Key.Domain)})
			p.from = append(p.from, o.From)
		}
		in.aliases = listOf(aliases)
	}
	var h hostInput
	for vs := range p.scope.rulesFor(svc.Host) {
		used[vs] = true
		if h.routes == nil {
			h.routes = p.routes(vs, port)
		}
	}
	if h.routes == nil {
		h.retry = p.v.Settings.Mesh.GetDefaultHttpRetryPolicy()
		if rule := p.v.DestinationRule(svc.Host); hashes(rule) {
			h.rule = rule
			p.from = append(p.from, rule.From...)
		}
	}
	p.add(h, in)
}

// unknown adds the virtual host of a host that no service has, and says whether there is one: not where none of the
// routes is for this View's proxies.
func (p *planner) unknown(vs *snapshot.VirtualService, host mesh.Hostname, port uint32) bool {
	r := p.routes(vs, port)
	if r == nil {
		return false
	}
	p.add(hostInput{routes: r}, p.namesInput(host, port))
	return true
}

func (p *planner) namesInput(host mesh.Hostname, port uint32) namesInput {
	return namesInput{host: host, port: port, form: p.form, ipv4: p.v.Key.IPv4, ipv6: p.v.Key.IPv6}
}

func (p *planner) add(h hostInput, in namesInput) {
	h.names = p.g.names.Do(in, namesFor)
	h.attempts = sendsAttempts(p.v)
	p.hosts = append(p.hosts, h)
}

// routes gives the routes of a VirtualService, nil if it has none for this View's proxies.
func (p *planner) routes(vs *snapshot.VirtualService, port uint32) *routes {
	in := routesInput{uses: p.g.uses.Do(vs, usesOf), port: port, retry: p.v.Settings.Mesh.GetDefaultHttpRetryPolicy()}
	from := vs.From
	if len(in.uses.sources) > 0 {
		in.sources = sources(p.v, in.uses.sources)
	}
	var targets []target
	for _, host := range in.uses.hosts {
		t := target{host: host, service: destination.Host(p.v, host)}
		if rule := p.v.DestinationRule(t.service); hashes(rule) {
			t.rule = rule
			from = append(slices.Clip(from), rule.From...)
		}
		if t.service != host || t.rule != nil {
			targets = append(targets, t)
		}
	}
	in.targets = listOf(targets)
	r := p.g.routes.Do(in, routesOf)
	if len(r.encoded) == 0 {
		p.unused = append(p.unused, r)
		return nil
	}
	p.from = append(p.from, from...)
	return r
}

// plan lists the virtual hosts that a request is answered with, sorted by name, with every domain in one of them only.
func (p *planner) plan(r request) []hostInput {
	switch {
	case r.host != "":
		p.form = anyHost
		if svc := p.scope.service(r.port, r.host); svc != nil {
			p.service(svc, r.port, map[*snapshot.VirtualService]bool{})
		}
		return p.hosts
	case r.port == 0:
		p.form = withPort
		for _, port := range p.scope.ports() {
			p.port(port)
		}
	default:
		p.port(r.port)
	}
	slices.SortFunc(p.hosts, func(a, b hostInput) int { return strings.Compare(a.names.name, b.names.name) })
	return distinct(p.hosts)
}

// ports gives all ports that virtual hosts may be on, sorted.
func (s *scope) ports() []uint32 {
	ports := slices.Sorted(maps.Keys(s.services))
	if i, found := slices.BinarySearch(ports, unknownHostPort); !found && len(s.rules) > 0 {
		ports = slices.Insert(ports, i, unknownHostPort)
	}
	return ports
}
