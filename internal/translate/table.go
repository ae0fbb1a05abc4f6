package translate

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/grpc"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/internal/translate/patch"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// Generator makes the resources of one type for a View. It is pure: what it remembers inside makes no difference to what
// it gives.
type Generator struct {
	TypeURL string
	// All gives all resources of a type that proxies are sent whole (CDS, LDS); nil for the others.
	All func(v *view.View) []*resource.Resource
	// Named gives one resource of a type that proxies ask for by name (EDS, RDS); nil for the others. It gives nil for a
	// name that means nothing.
	Named func(v *view.View, name string) *resource.Resource
	// Every gives at once, sorted by name, what Named gives for all names that proxies of the View surely ask for. nil: it
	// is not made at once.
	Every func(v *view.View) []*resource.Resource
	// Update gives what a change altered of what All gives, since the older View; ok false: it cannot tell. nil: never.
	Update func(old, v *view.View, d snapshot.Delta) (diff resource.Diff, ok bool)
	// Affected narrows what must be asked again of a named type after a change: those of the names, which are sorted, that
	// may differ. nil: all of them.
	Affected func(old, v *view.View, d snapshot.Delta, names []string) []string
	// Touched says whether a change may alter what was made for a View; s is the snapshot after it. nil: what touches the
	// View, but not endpoints where there is All.
	Touched func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool
	// Inbound says that the resources are about what a proxy serves.
	Inbound bool
	// Local says that whether a proxy takes the resource of a name depends on what only that proxy has; nil: none does.
	Local func(name string) bool
	// Scope gives the part of a Key that the output depends on, with the rest zero; nil: all of it. Views that agree in
	// it share what is made.
	Scope func(k view.Key) view.Key
}

// Table is all generators, and how much they have done.
type Table struct {
	// Generators are, those for Envoys, those for gRPC and those for agents each, in the order in which resources are sent: what
	// others point to goes first.
	Generators []Generator
	// Computed is, by type URL, how many resources were really made since the start.
	Computed map[string]func() uint64
	// Conflicts gives what services and rules do not get in one View because others have it.
	Conflicts func(v *view.View) []config.Problem
	// Unserved gives what a gRPC application without a proxy does not get of what objects ask, by its View and the names that it has
	// asked for of a type; nothing for others.
	Unserved func(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem
}

// Options are how generators work.
type Options struct {
	// Secrets says which proxies may have which secrets; nil: secret.Entitled.
	Secrets secret.Policy
}

// NewTable makes generators that remember nothing yet.
func NewTable(o Options) *Table {
	if o.Secrets == nil {
		o.Secrets = secret.Entitled
	}
	clusters, endpoints := cluster.NewGenerator(), endpoint.NewGenerator()
	listeners, routes := listener.NewGenerator(), route.NewGenerator()
	plugins := plugin.NewGenerator()
	secrets, names, proxyConfigs := secret.NewGenerator(o.Secrets), nametable.NewGenerator(), proxyconfig.NewGenerator()
	p := patching{patch.New(), clusters, listeners, routes}
	ofClusters := func(g Generator) Generator { return p.all(g, clusterPatches, p.Clusters) }
	ofListeners := func(g Generator) Generator { return p.all(g, listenerPatches, p.Listeners) }
	forEnvoy := []Generator{
		ofClusters(Generator{TypeURL: api.ClusterType, All: clusters.Outbound, Update: clusters.OutboundSince, Touched: cluster.Touched, Scope: clusterScope}),
		ofClusters(Generator{TypeURL: api.ClusterType, All: clusters.Resolved, Update: clusters.ResolvedSince, Touched: cluster.Touched, Scope: resolvedScope}),
		ofClusters(Generator{TypeURL: api.ClusterType, All: clusters.HandedOn, Touched: cluster.HandedOnTouched, Scope: handedOnScope}),
		ofClusters(Generator{TypeURL: api.ClusterType, All: clusters.Inbound, Touched: touchesInbound, Inbound: true}),
		p.addedClusters(),
		{TypeURL: api.EndpointType, Named: endpoints.NamedRemote, Every: endpoints.Every, Affected: endpoints.Affected, Scope: endpointScope},
		{TypeURL: api.EndpointType, Named: endpoints.Local, Touched: endpoint.LocalTouched, Scope: localScope},
		{TypeURL: api.ExtensionType, Named: listeners.Extension, Touched: listeners.OutboundTouched, Scope: extensionScope},
		p.extensions(),
		{TypeURL: api.ExtensionType, Named: listeners.Policies, Touched: listeners.PoliciesTouched, Inbound: true, Scope: policyScope},
		{TypeURL: api.ExtensionType, Named: plugins.Named, Touched: plugin.Touched, Scope: plugin.Scope},
		ofListeners(Generator{TypeURL: api.ListenerType, All: listeners.Own, Touched: listeners.OwnTouched, Inbound: true}),
		ofListeners(Generator{TypeURL: api.ListenerType, All: listeners.Outbound, Touched: listeners.OutboundTouched, Scope: listenerScope}),
		ofListeners(Generator{TypeURL: api.ListenerType, All: listeners.Gateway, Touched: listeners.GatewayTouched, Scope: gatewayScope}),
		p.addedListeners(),
		p.named(Generator{TypeURL: api.RouteType, Named: routes.Named, Affected: routes.Affected, Scope: routeScope}),
		{TypeURL: api.SecretType, Named: secrets.Named, Affected: secrets.Affected, Touched: secret.Touched, Scope: secret.Scope, Local: secret.OfFiles},
	}
	for i := range forEnvoy {
		forEnvoy[i] = only(forEnvoy[i], false)
	}
	e := grpc.Envoy{Clusters: clusters, Endpoints: endpoints, Routes: routes}
	applications := grpc.NewGenerator(e)
	forAgents := []Generator{
		{TypeURL: api.NameTableType, All: names.All, Touched: nametable.Touched, Scope: nametable.Scope},
		{TypeURL: api.ProxyConfigType, All: proxyConfigs.All, Touched: proxyconfig.Touched, Scope: proxyconfig.Scope},
	}
	return &Table{
		Generators: slices.Concat(forEnvoy, proxyless(applications, e), forAgents),
		Unserved:   applications.Problems,
		Conflicts: func(v *view.View) []config.Problem {
			return slices.Concat(listeners.Problems(v), cluster.EnvoyProblems(v), p.problems(v))
		},
		Computed: map[string]func() uint64{
			api.ClusterType:     clusters.Computed,
			api.EndpointType:    endpoints.Computed,
			api.ExtensionType:   func() uint64 { return listeners.ComputedExtensions() + plugins.Computed() },
			api.ListenerType:    listeners.Computed,
			api.RouteType:       routes.Computed,
			api.SecretType:      secrets.Computed,
			api.NameTableType:   names.Computed,
			api.ProxyConfigType: proxyConfigs.Computed,
		},
	}
}

// touchesInbound: what a proxy serves, and how connections get to it.
func touchesInbound(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.TouchesInbound(d)
}

// clusterScope: who may be called is a matter of what a proxy sees, and how, of what it is.
func clusterScope(k view.Key) view.Key {
	return view.Key{
		Type: k.Type, Namespace: k.Namespace, Sidecar: k.Sidecar, Rules: k.Rules, IPv4: k.IPv4, IPv6: k.IPv6, SocketMark: k.SocketMark, Client: k.Client,
		Own: k.OwnClusters, OwnClusters: k.OwnClusters, FileServer: k.FileServer, Lacks: k.Lacks & view.ClusterFeatures,
	}
}

// resolvedScope: clusters that hold their endpoints also depend on where the proxy is.
func resolvedScope(k view.Key) view.Key {
	scope := clusterScope(k)
	scope.Locality, scope.Network, scope.Cluster, scope.Near = k.Locality, k.Network, k.Cluster, k.Near
	scope.NetworkView, scope.Node = k.NetworkView, k.Node
	return scope
}

// handedOnScope: which clusters a gateway hands TLS on to is a matter of its servers too. Sidecars have none of them.
func handedOnScope(k view.Key) view.Key {
	if k.Type != mesh.RouterProxy {
		return view.Key{}
	}
	scope := resolvedScope(k)
	scope.Gateway = k.Gateway
	return scope
}

// listenerScope: as with routes, unless the proxy itself may be where services are called.
func listenerScope(k view.Key) view.Key {
	if k.Bound {
		return k
	}
	return view.Key{
		Type: k.Type, Namespace: k.Namespace, Sidecar: k.Sidecar, Rules: k.Rules, Labels: k.Labels, IPv4: k.IPv4, IPv6: k.IPv6,
		Interception: k.Interception, Client: k.Client, Allocated: k.Allocated, Home: k.Home, Telemetry: k.Telemetry, LogService: k.LogService, Own: k.Own,
		Plugins: k.Plugins, Lacks: k.Lacks & view.ListenerFeatures,
	}
}

// gatewayScope: what a gateway listens on is a matter of the Gateways that select it, and of where those lead. Sidecars have none
// of it, and share that.
func gatewayScope(k view.Key) view.Key {
	if k.Type != mesh.RouterProxy {
		return view.Key{}
	}
	scope := listenerScope(k)
	scope.Gateway, scope.Server, scope.Policies, scope.PoliciesInside = k.Gateway, k.Server, k.Policies, k.PoliciesInside
	if k.Keys == view.KeysRefused { // what else is known of keys is no matter of listeners
		scope.Keys = k.Keys
	}
	return scope
}

// extensionScope: extensions are of outbound listeners, wherever those are, and of gateways'.
func extensionScope(k view.Key) view.Key {
	k.Bound = false
	scope := listenerScope(k)
	if k.Type == mesh.RouterProxy {
		scope.Gateway, scope.Server, scope.Policies, scope.PoliciesInside = k.Gateway, k.Server, k.Policies, k.PoliciesInside
	}
	scope.Patches.Listeners = k.Patches.Listeners
	return scope
}

// policyScope: who may call is a matter of the policies, and of where those who are asked about it are to the proxy. Proxies
// without policies share that they have none.
func policyScope(k view.Key) view.Key {
	if k.Policies == (snapshot.PolicyNames{}) {
		return view.Key{}
	}
	scope := clusterScope(k)
	scope.Own, scope.OwnClusters, scope.FileServer, scope.Lacks = "", "", "", 0
	scope.Policies = k.Policies
	return scope
}

// endpointScope: which endpoints a proxy gets is a matter of where it is and what it sees, not of what it serves.
func endpointScope(k view.Key) view.Key {
	return view.Key{
		Type: k.Type, Namespace: k.Namespace, Sidecar: k.Sidecar, Rules: k.Rules, Locality: k.Locality, Network: k.Network, Cluster: k.Cluster, Near: k.Near,
		NetworkView: k.NetworkView, Node: k.Node,
		IPv4: k.IPv4, IPv6: k.IPv6,
	}
}

// localScope: the endpoints of a proxy's own workload depend on the workload and its region.
func localScope(k view.Key) view.Key {
	return view.Key{Self: k.Self, Locality: mesh.Locality{Region: k.Locality.Region}}
}

// routeScope: outbound routes are a matter of what a proxy sees, how it calls it, and its labels as source.
func routeScope(k view.Key) view.Key {
	return view.Key{
		Type: k.Type, Gateway: k.Gateway, Namespace: k.Namespace, Domain: k.Domain, Sidecar: k.Sidecar, Rules: k.Rules, Labels: k.Labels, IPv4: k.IPv4, IPv6: k.IPv6, Allocated: k.Allocated, Home: k.Home,
		Own: k.Own,
	}
}
