package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// gatewayConfigurationKey is the cache key of a RouteConfiguration of a gateway.
type gatewayConfigurationKey struct {
	of   *Generator
	name string
	key  view.Key
}

// gatewayNamed returns the RouteConfiguration of a gateway with a name, or nil if none of the
// gateway's servers uses the name. It is generated once for each snapshot and Key.
func (g *Generator) gatewayNamed(v *view.View, name string) *resource.Resource {
	r := v.Gateway().RouteByName(name)
	if r == nil {
		return nil
	}
	return snapshot.Derive(
		v.Snapshot.Derived,
		gatewayConfigurationKey{g, name, v.Key},
		func() *resource.Resource { return g.buildGateway(v, r) },
	)
}

// buildGateway returns the RouteConfiguration r of a gateway. If no virtual host has routes, it has
// a single one for all hosts, without routes.
func (g *Generator) buildGateway(v *view.View, r *view.GatewayRoute) *resource.Resource {
	p := &gatewayPlanner{planner: planner{g: g, v: v}, route: r, hosts: map[mesh.Hostname]*gatewayHost{}}
	for _, s := range r.Servers {
		p.addServer(s)
	}
	made := &gatewayParts{unused: p.unbound}
	for _, in := range p.inputs() {
		made.hosts = append(made.hosts, g.gatewayHosts.Get(in))
	}
	c := newConfiguration(r.Name, made.hosts)
	if len(made.hosts) == 0 {
		c.body = appendHost(c.body, operation("blackhole", r.Servers[0].Port()), []string{"*"}, new(routes), false)
	}
	c.finish(true, false)
	res := resource.FromBytes(r.Name, api.RouteType, c.body, p.from...)
	res.Parts, res.Refers = made, made.clusters
	return res
}

// gatewayParts are the parts of a RouteConfiguration, cached as long as it is in use.
type gatewayParts struct {
	hosts  []*virtualHost
	unused []*boundRoutes
}

// clusters returns the clusters to which the virtual hosts refer (clustersOf).
func (p *gatewayParts) clusters() []string { return clustersOf(p.hosts) }

// gatewayAffected returns the elements of names whose RouteConfigurations a change from old to v
// may alter: because their servers changed, the VirtualServices bound to these, or the
// destinations. If the difference is unknown, it returns all names.
func gatewayAffected(old, v *view.View, d snapshot.Delta, names []string) []string {
	differs, ok := v.DiffSince(old, d)
	if !ok {
		return names
	}
	was, is := old.Gateway(), v.Gateway()
	var affected []string
	for _, name := range names {
		a, b := was.RouteByName(name), is.RouteByName(name)
		if !a.HasSameServers(b) || b != nil && boundDiffer(old, v, b, d, differs) {
			affected = append(affected, name)
		}
	}
	return affected
}

// boundDiffer reports whether the VirtualServices bound to the servers of r changed, or any of
// their destinations: a service, or a DestinationRule with a hash policy (destinationsDiffer).
// differs is the difference of the Views.
func boundDiffer(old, v *view.View, r *view.GatewayRoute, d snapshot.Delta, differs view.Difference) bool {
	seen := map[string]bool{}
	for _, s := range r.Servers {
		if seen[s.Gateway] {
			continue
		}
		seen[s.Gateway] = true
		rules := v.VirtualServicesOf(s.Gateway)
		if !slices.Equal(old.VirtualServicesOf(s.Gateway), rules) {
			return true
		}
		if len(differs.Services) == 0 && len(d.Rules) == 0 {
			continue
		}
		if slices.ContainsFunc(
			rules,
			func(vs *snapshot.VirtualService) bool { return destinationsDiffer(old, v, vs, d, differs) },
		) {
			return true
		}
	}
	return false
}

// destinationsDiffer reports whether a destination of vs is a service that changed, or an alias, or
// has a changed DestinationRule with a hash policy in one of the Views.
func destinationsDiffer(
	old, v *view.View,
	vs *snapshot.VirtualService,
	d snapshot.Delta,
	differs view.Difference,
) bool {
	return slices.ContainsFunc(usesOf(vs).hosts, func(h mesh.Hostname) bool {
		if _, found := slices.BinarySearch(differs.Services, h); found || isAlias(old, h) || isAlias(v, h) {
			return true
		}
		if len(d.Rules) == 0 {
			return false
		}
		a, b := old.DestinationRule(h), v.DestinationRule(h)
		return a != b && (hasHashPolicy(a) || hasHashPolicy(b))
	})
}

// isAlias reports whether the host is a service in the View that is an alias.
func isAlias(v *view.View, h mesh.Hostname) bool {
	svc := v.Service(h)
	return svc != nil && svc.Resolution == mesh.Alias
}

// gatewayPlanner plans the virtual hosts of one RouteConfiguration of a gateway.
type gatewayPlanner struct {
	planner
	route   *view.GatewayRoute
	hosts   map[mesh.Hostname]*gatewayHost
	unbound []*boundRoutes
}

// gatewayHost is a virtual host under construction.
type gatewayHost struct {
	port     uint32
	routes   []*boundRoutes
	redirect bool
	// misdirected is set for a host of another server of the port.
	misdirected bool
}

// addServer adds the VirtualServices bound to a server to its virtual hosts, and their objects to
// p.from. Several VirtualServices of one host are merged, the routes of the first one first.
// VirtualServices without HTTP routes for the proxies are skipped (p.unbound), and so are hosts
// that a more specific listener has (isIsolated). A listener of the Gateway API has a virtual host
// for its own hostname (isolateListeners). A server that redirects to HTTPS has one for each of its
// hosts.
func (p *gatewayPlanner) addServer(s *view.GatewayServer) {
	p.from = append(p.from, s.Object.Key)
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if len(vs.Spec.GetHttp()) == 0 {
			continue
		}
		hosts := s.ServedHosts(vs)
		if len(hosts) == 0 {
			continue
		}
		in, from := p.routesInput(vs, routesInput{port: s.Port(), gateway: s.Gateway, tls: s.UsesTLS()})
		r := p.g.bound.Get(in)
		if r.isEmpty() {
			p.unbound = append(p.unbound, r)
			continue
		}
		p.from = append(p.from, from...)
		for _, h := range hosts {
			if !p.isIsolated(s, h) {
				p.virtualHost(h, s).addRoutes(r)
			}
		}
	}
	p.isolateListeners(s)
	if s.RedirectsToHTTPS() {
		for _, h := range s.Hosts {
			p.virtualHost(h.Host, s)
		}
	}
}

// virtualHost returns the virtual host of h in p.hosts, and creates it with the port of s if
// needed. It redirects plaintext requests to HTTPS if s, or a server of an earlier call, does.
func (p *gatewayPlanner) virtualHost(h mesh.Hostname, s *view.GatewayServer) *gatewayHost {
	host := p.hosts[h]
	if host == nil {
		host = &gatewayHost{port: s.Port()}
		p.hosts[h] = host
	}
	host.redirect = host.redirect || s.RedirectsToHTTPS()
	return host
}

// addRoutes adds r to the routes of the host, unless it is there.
func (h *gatewayHost) addRoutes(r *boundRoutes) {
	if !slices.Contains(h.routes, r) { // Two servers may have the same host.
		h.routes = append(h.routes, r)
	}
}

// inputs returns the inputs of the virtual hosts, sorted by host.
func (p *gatewayPlanner) inputs() []gatewayHostInput {
	attempts := sendsAttempts(p.v)
	list := make([]gatewayHostInput, 0, len(p.hosts))
	for name, h := range p.hosts {
		in := gatewayHostInput{
			host:     name,
			port:     h.port,
			routes:   memo.ListOf(h.routes),
			redirect: h.redirect,
			attempts: attempts,

			misdirected: h.misdirected,
		}
		if p.route.QUIC {
			in.quic = h.port
		}
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b gatewayHostInput) int {
		return cmp.Or(strings.Compare(string(a.host), string(b.host)), cmp.Compare(a.port, b.port))
	})
	return list
}

// onlyPort returns the number of a service's only port, or 0 if svc is nil or has another number of
// ports. Gateways use it for destinations without a port, because the gateway's own port has no
// meaning to them.
func onlyPort(svc *mesh.Service) uint32 {
	if svc == nil || len(svc.Ports) != 1 {
		return 0
	}
	return svc.Ports[0].Number
}

// isBound reports whether a list of gateways (HTTPMatchRequest.gateways) includes the gateway, or
// the mesh, that these routes are for. An empty list includes all gateways of the object.
func (t *translation) isBound(gateways []string) bool {
	own := cmp.Or(t.gateway, snapshot.MeshGateway)
	return len(gateways) == 0 || slices.ContainsFunc(gateways, func(g string) bool {
		return snapshot.ResolveGateway(g, t.uses.vs.Config.Namespace) == own
	})
}
