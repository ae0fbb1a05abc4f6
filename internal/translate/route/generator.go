package route

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Generator makes the RouteConfigurations of Views. It remembers the parts, and is for use by many goroutines.
type Generator struct {
	uses   *memo.Table[*snapshot.VirtualService, *uses]
	names  *memo.Table[namesInput, *names]
	routes *memo.Table[routesInput, *routes]
	hosts  *memo.Table[hostInput, *virtualHost]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{
		uses:   memo.New[*snapshot.VirtualService, uses](),
		names:  memo.New[namesInput, names](),
		routes: memo.New[routesInput, routes](),
		hosts:  memo.New[hostInput, virtualHost](),
	}
}

// configurationKey names a RouteConfiguration: all Views that agree in it are sent the same one.
type configurationKey struct {
	name, namespace, domain, labels string
	sidecar                         config.Key
	ipv4, ipv6                      bool
}

// Named gives the RouteConfiguration of that name as the View's proxies are sent it. It answers any name that it can make
// sense of, also ones that no listener has now: a proxy goes on asking for a route while its old listener drains.
// nil: no such name, or one of a service or socket that is not there.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	r, ok := parseName(name)
	if !ok || v.Key.Type != mesh.SidecarProxy || !known(v, r) {
		return nil
	}
	k := configurationKey{
		name: name, namespace: v.Key.Namespace, domain: v.Key.Domain, labels: v.Key.Labels,
		sidecar: v.Key.Sidecar, ipv4: v.Key.IPv4, ipv6: v.Key.IPv6,
	}
	return snapshot.Derive(v.Snapshot.Derived, k, func() *resource.Resource { return g.build(v, r) })
}

// known says whether there is what a name is about. Ports need nothing: what is asked for there has the catch-all.
// Other names that proxies make up cost nothing and leave nothing behind.
func known(v *view.View, r request) bool {
	switch {
	case r.socket():
		return egressFor(v, r) != nil
	case r.host != "":
		e := egressFor(v, r)
		return e != nil && scopeOf(v, e).service(r.port, r.host) != nil
	default:
		return true
	}
}

// parts is what a RouteConfiguration was put together from, kept for as long as it is in use.
type parts struct {
	hosts  []*virtualHost
	unused []*routes
}

// clusters gives the names of all clusters that requests may be led to, sorted.
func (p *parts) clusters() []string {
	var list []string
	for _, h := range p.hosts {
		list = append(list, h.clusters...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (g *Generator) build(v *view.View, r request) *resource.Resource {
	e := egressFor(v, r)
	if r.host == "" && forAllPorts(e) {
		r.port = 0
	}
	p := &planner{g: g, v: v}
	var hosts []hostInput
	if e != nil {
		p.scope = scopeOf(v, e)
		hosts = p.plan(r)
	}
	made := &parts{hosts: make([]*virtualHost, len(hosts)), unused: p.unused}
	for i, h := range hosts {
		made.hosts[i] = g.hosts.Do(h, encodeHost)
	}
	c := newConfiguration(r.name, made.hosts)
	c.from = p.from
	if r.host == "" && !slices.ContainsFunc(hosts, hostInput.takesAll) {
		c.catchAll(v.OutboundAllowAny(), sendsAttempts(v))
	}
	c.finish(r.port != 0)
	if v.Sidecar != nil {
		c.from = append(c.from, v.Sidecar.Key)
	}
	res := resource.FromBytes(r.name, api.RouteType, c.body, c.from...)
	res.Parts, res.Refers = made, made.clusters
	return res
}

// Affected gives those of the names whose RouteConfigurations a change may alter. Endpoints and workloads alter none, and of
// DestinationRules only those that hash.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	differs, ok := v.Since(old, d)
	hashed := func(h mesh.Hostname) bool { return hashes(old.DestinationRule(h)) || hashes(v.DestinationRule(h)) }
	if !ok || !sameRules(old, v) || slices.ContainsFunc(differs.Rules, hashed) {
		return names
	}
	for h := range d.Rules { // routes may lead to hosts that are no services
		if hashed(h) {
			return names
		}
	}
	if len(differs.Services) == 0 {
		return nil
	}
	touched := portsOf(differs.Services, old, v)
	if touched == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		r, ok := parseName(name)
		return ok && !r.socket() && r.port != 0 && !touched[r.port]
	})
}

// sameRules says whether two Views see the same VirtualServices.
func sameRules(a, b *view.View) bool {
	return slices.EqualFunc(a.Egress, b.Egress, func(x, y *view.Egress) bool {
		return slices.Equal(x.VirtualServices, y.VirtualServices)
	})
}

// portsOf gives the ports on which requests to the services are read, in any of the Views; nil if that
// does not tell which RouteConfigurations they are in.
func portsOf(hosts []mesh.Hostname, views ...*view.View) map[uint32]bool {
	ports := map[uint32]bool{}
	for _, v := range views {
		if len(v.Egress) != 1 { // each may see another service of a hostname
			return nil
		}
		for _, h := range hosts {
			svc := v.Service(h)
			if svc == nil {
				continue
			}
			if svc.Resolution == mesh.Alias || hashes(v.DestinationRule(h)) {
				return nil
			}
			for _, p := range svc.Ports {
				ports[p.Number] = ports[p.Number] || readsRequests(p)
			}
		}
	}
	return ports
}

// Computed is how many virtual hosts were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.hosts.Computed() }
