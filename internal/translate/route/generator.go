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
	res.Parts = made
	return res
}

// Affected gives those of the names whose RouteConfigurations a change may alter. Endpoints and workloads alter none.
func (g *Generator) Affected(_ *view.View, d snapshot.Delta, names []string) []string {
	if d.All || len(d.Services) > 0 {
		return names
	}
	for k := range d.Configs {
		switch k.Kind {
		case api.VirtualService, api.DestinationRule, api.Sidecar:
			return names
		}
	}
	return nil
}

// Computed is how many virtual hosts were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.hosts.Computed() }
