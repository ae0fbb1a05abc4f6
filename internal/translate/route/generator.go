package route

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Generator makes the RouteConfigurations of Views. It remembers the parts, and is for use by many goroutines.
type Generator struct {
	uses   *memo.Table[*snapshot.VirtualService, *uses]
	names  *memo.Table[namesInput, *names]
	routes *memo.Table[routesInput, *routes]
	hosts  *memo.Table[hostInput, *virtualHost]
	// scopes and plans are what the next ones are made of.
	scopes *memo.Latest[scopeName, scope]
	plans  *memo.Latest[configurationKey, plan]
	// bound and gatewayHosts are of gateways.
	bound        *memo.Table[routesInput, *boundRoutes]
	gatewayHosts *memo.Table[gatewayHostInput, *virtualHost]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{
		uses:   memo.New(usesOf),
		names:  memo.New(namesFor),
		routes: memo.New(routesOf),
		hosts:  memo.New(encodeHost),
		scopes: memo.NewLatest[scopeName, scope](),
		plans:  memo.NewLatest[configurationKey, plan](),

		bound:        memo.New(boundRoutesOf),
		gatewayHosts: memo.New(encodeGatewayHost),
	}
}

// configurationKey names a RouteConfiguration: all Views that agree in it are sent the same one.
type configurationKey struct {
	of                              *Generator
	name, namespace, domain, labels string
	own                             string
	sidecar                         config.Key
	rules                           snapshot.RuleNames
	ipv4, ipv6, allocated           bool
	home                            mesh.ClusterID
}

// Named gives the RouteConfiguration of that name as the View's proxies are sent it. It answers any name that it can make
// sense of, also ones that no listener has now: a proxy goes on asking for a route while its old listener drains.
// nil: no such name, or one of a service or socket that is not there.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if v.Key.Type == mesh.RouterProxy {
		return g.gatewayNamed(v, name)
	}
	r, ok := parseName(name)
	if !ok || v.Key.Type != mesh.SidecarProxy || !g.known(v, r) {
		return nil
	}
	return snapshot.Derive(v.Snapshot.Derived, g.key(v, name), func() *resource.Resource { return g.build(v, r) })
}

func (g *Generator) key(v *view.View, name string) configurationKey {
	return configurationKey{
		of: g, name: name, namespace: v.Key.Namespace, domain: v.Key.Domain, labels: v.Key.Labels, own: v.Key.Own,
		sidecar: v.Key.Sidecar, rules: v.Key.Rules, ipv4: v.Key.IPv4, ipv6: v.Key.IPv6, allocated: v.Key.Allocated, home: v.Key.Home,
	}
}

// known says whether there is what a name is about. Ports need nothing: what is asked for there has the catch-all.
// Other names that proxies make up cost nothing and leave nothing behind.
func (g *Generator) known(v *view.View, r request) bool {
	switch {
	case r.socket():
		return egressFor(v, r) != nil
	case r.host != "":
		e := egressFor(v, r)
		return e != nil && g.scope(v, e).service(r.port, r.host) != nil
	default:
		return true
	}
}

func (g *Generator) build(v *view.View, r request) *resource.Resource {
	e := egressFor(v, r)
	if r.host == "" && forAllPorts(e) {
		r.port = 0
	}
	made := new(plan)
	if e != nil {
		k := g.key(v, r.name)
		p := &planner{g: g, v: v, scope: g.scope(v, e)}
		made = p.plan(r, g.plans.Get(k))
		g.plans.Set(k, made)
	}
	c := newConfiguration(r.name, made.encoded)
	if r.host == "" && !made.takesAll() {
		c.catchAll(destination.UnknownRequests(v), sendsAttempts(v))
	}
	c.finish(r.port != 0)
	res := resource.FromBytes(r.name, api.RouteType, c.body)
	res.From = made.from
	if v.Sidecar != nil {
		res.From = revised(res.From, nil, []config.Key{v.Sidecar.Key}, config.Key.Compare, nil)
	}
	res.Parts, res.Refers = made, func() []string { return made.clusters }
	return res
}

// Computed is how many virtual hosts were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.hosts.Computed() + g.gatewayHosts.Computed() }
