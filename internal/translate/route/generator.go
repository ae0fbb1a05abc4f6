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

// Generator generates the RouteConfigurations of Views and caches their parts. It is safe for
// concurrent use.
type Generator struct {
	uses   *memo.Table[*snapshot.VirtualService, *uses]
	names  *memo.Table[namesInput, *names]
	routes *memo.Table[routesInput, *routes]
	hosts  *memo.Table[hostInput, *virtualHost]
	// scopes and plans have the newest ones, from which the next are derived.
	scopes *memo.Latest[scopeName, scope]
	plans  *memo.Latest[configurationKey, plan]
	// bound and gatewayHosts are used for gateways.
	bound        *memo.Table[routesInput, *boundRoutes]
	gatewayHosts *memo.Table[gatewayHostInput, *virtualHost]
	// merged has the routes of several VirtualServices with an extension.
	merged *memo.Table[memo.List[*boundRoutes], *routes]
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator() *Generator {
	return &Generator{
		uses:   memo.New(usesOf),
		names:  memo.New(namesFor),
		routes: memo.New(buildRoutes),
		hosts:  memo.New(encodeHost),
		scopes: memo.NewLatest[scopeName, scope](),
		plans:  memo.NewLatest[configurationKey, plan](),

		bound:        memo.New(boundRoutesOf),
		gatewayHosts: memo.New(encodeGatewayHost),
		merged:       memo.New(mergeBound),
	}
}

// configurationKey is the cache key of a RouteConfiguration. Views with equal keys have the same
// one. labels is Key.SourceSelectors, own Key.ProxyConfigOverrides, direct the result of
// view.IsDirect, allocated Key.KnowsAllocatedAddresses and home Key.VIPCluster.
type configurationKey struct {
	of                              *Generator
	name, namespace, domain, labels string
	own                             string
	direct                          bool
	sidecar                         config.Key
	rules                           snapshot.RuleNames
	ipv4, ipv6, allocated           bool
	home                            mesh.ClusterID
}

// Named returns the RouteConfiguration with a name for the View's proxies. For gateways it returns
// nil unless one of their servers uses the name. For sidecars it accepts names that no listener
// references now, because a proxy still requests a route while its old listener drains. It returns
// nil if such a name is malformed or its service or socket does not exist, and for all other
// proxies.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if v.Key.Type == mesh.RouterProxy {
		return g.gatewayNamed(v, name)
	}
	r, ok := parseName(name)
	if !ok || v.Key.Type != mesh.SidecarProxy || !g.exists(v, r) {
		return nil
	}
	return snapshot.Derive(
		v.Snapshot.Derived,
		g.keyFor(v, name),
		func() *resource.Resource { return g.buildConfiguration(v, r) },
	)
}

// keyFor returns the cache key of a sidecar's RouteConfiguration.
func (g *Generator) keyFor(v *view.View, name string) configurationKey {
	return configurationKey{
		of: g, name: name, namespace: v.Key.Namespace, domain: v.Key.Domain, labels: v.Key.SourceSelectors,
		own:       v.Key.ProxyConfigOverrides,
		direct:    view.IsDirect(v.Key),
		sidecar:   v.Key.Sidecar,
		rules:     v.Key.DestinationRules,
		ipv4:      v.Key.IPv4,
		ipv6:      v.Key.IPv6,
		allocated: v.Key.KnowsAllocatedAddresses,
		home:      v.Key.VIPCluster,
	}
}

// exists reports whether the service of r.host, or the Sidecar's listener at a socket, exists in
// the View. It returns true for a port: its RouteConfiguration has at least the catch-all. So names
// of hosts and sockets that proxies make up are not cached.
func (g *Generator) exists(v *view.View, r request) bool {
	switch {
	case r.isSocket():
		return egressFor(v, r) != nil
	case r.host != "":
		e := egressFor(v, r)
		return e != nil && g.scope(v, e).service(r.port, r.host) != nil
	default:
		return true
	}
}

// buildConfiguration returns the RouteConfiguration for r. It reuses the virtual hosts of the last
// plan that did not change, and stores the new plan in g.plans. A catch-all virtual host is added
// unless a host was requested or the plan matches all hosts. Without an egress listener for r it
// has only that.
func (g *Generator) buildConfiguration(v *view.View, r request) *resource.Resource {
	e := egressFor(v, r)
	if r.host == "" && forAllPorts(e) {
		r.port = 0
	}
	made := new(plan)
	if e != nil {
		k := g.keyFor(v, r.name)
		p := &planner{g: g, v: v, scope: g.scope(v, e)}
		made = p.plan(r, g.plans.Get(k))
		g.plans.Set(k, made)
	}
	c := newConfiguration(r.name, made.virtualHosts())
	if r.host == "" && !made.takesAll() {
		c.addCatchAll(destination.UnknownRequests(v), sendsAttempts(v))
	}
	c.finish(r.port != 0, made.removesDestination)
	res := resource.FromBytes(r.name, api.RouteType, c.body)
	res.From = made.from
	if v.Sidecar != nil {
		res.From = revised(res.From, nil, []config.Key{v.Sidecar.Key}, config.Key.Compare, nil)
	}
	res.Parts, res.Refers = made, func() []string { return made.clusters }
	res.Pins = func() []string { return pinnedBy(made.virtualHosts()) }
	return res
}

// Computed returns how many virtual hosts have been generated since the start, for sidecars and
// gateways.
func (g *Generator) Computed() uint64 { return g.hosts.Computed() + g.gatewayHosts.Computed() }
