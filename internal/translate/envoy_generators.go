package translate

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// envoySet has the generators of each package for Envoys.
type envoySet struct {
	clusters  *cluster.Generator
	endpoints *endpoint.Generator
	listeners *listener.Generator
	routes    *route.Generator
	plugins   *plugin.Generator
	secrets   *secret.Generator
	patching  patching
}

// generators returns the generators for Envoys in push order: clusters, endpoints, extension
// configs, listeners, routes and secrets. For Views of gRPC applications without a proxy their
// output is empty.
func (e envoySet) generators() []view.Generator {
	list := slices.Concat(
		e.clusterGenerators(),
		e.endpointGenerators(),
		e.extensionGenerators(),
		e.listenerGenerators(),
		e.routeGenerators(),
		e.secretGenerators(),
	)
	for i := range list {
		list[i] = restrictTo(list[i], false)
	}
	return list
}

// clusterGenerators returns the generators of clusters with EnvoyFilters applied: outbound by EDS,
// outbound with embedded endpoints, AUTO_PASSTHROUGH, UDP and inbound. The last one generates the
// clusters that EnvoyFilters add.
func (e envoySet) clusterGenerators() []view.Generator {
	patched := func(g view.Generator) view.Generator {
		g.TypeURL = api.ClusterType
		return e.patching.wrapAll(g, clusterPatches, e.patching.Clusters)
	}
	c := e.clusters
	return []view.Generator{
		patched(view.Generator{All: c.Outbound, Update: c.OutboundSince, Touched: cluster.Touched,
			Scope: clusterScope}),
		patched(view.Generator{All: c.Resolved, Update: c.ResolvedSince, Touched: cluster.ResolvedTouched,
			Scope: resolvedScope}),
		patched(view.Generator{All: c.SNIDNATClusters, Touched: cluster.SNIDNATTouched, Scope: sniDNATScope}),
		patched(view.Generator{All: c.UDPClusters, Touched: cluster.UDPTouched, Scope: sniDNATScope}),
		patched(view.Generator{All: c.Inbound, Touched: touchesInbound, Inbound: true}),
		e.patching.addedClusters(),
	}
}

// endpointGenerators returns the generators of load assignments: of the services' clusters, and of
// mesh.LocalCluster.
func (e envoySet) endpointGenerators() []view.Generator {
	return []view.Generator{
		{
			TypeURL:  api.EndpointType,
			Named:    e.endpoints.NamedRemote,
			Every:    e.endpoints.Every,
			Affected: e.endpoints.Affected,
			Touched:  touchesServices,
			Scope:    endpointScope,
		},
		{TypeURL: api.EndpointType, Named: e.endpoints.Local, Touched: endpoint.LocalTouched, Scope: localScope},
	}
}

// extensionGenerators returns the generators of extension configs (ECDS): filter chains of outbound
// and gateway listeners, configs that EnvoyFilters define, access policies, and Wasm and Lua
// plugins. Only the one for policies is marked as inbound configuration.
func (e envoySet) extensionGenerators() []view.Generator {
	return []view.Generator{
		{
			TypeURL: api.ExtensionType,
			Named:   e.listeners.Extension,
			Touched: e.listeners.OutboundTouched,
			Scope:   extensionScope,
		},
		e.patching.extensions(),
		{
			TypeURL: api.ExtensionType,
			Named:   e.listeners.Policies,
			Touched: e.listeners.PoliciesTouched,
			Inbound: true,
			Scope:   policyScope,
		},
		{TypeURL: api.ExtensionType, Named: e.plugins.Named, Touched: plugin.Touched, Scope: plugin.Scope},
	}
}

// listenerGenerators returns the generators of inbound, outbound and gateway listeners, with
// EnvoyFilters applied, and last the generator of listeners that EnvoyFilters add.
func (e envoySet) listenerGenerators() []view.Generator {
	patched := func(g view.Generator) view.Generator {
		g.TypeURL = api.ListenerType
		return e.patching.wrapAll(g, listenerPatches, e.patching.Listeners)
	}
	l := e.listeners
	return []view.Generator{
		patched(view.Generator{All: l.Own, Touched: l.OwnTouched, Inbound: true}),
		patched(view.Generator{All: l.Outbound, Touched: l.OutboundTouched, Scope: listenerScope}),
		patched(view.Generator{All: l.Gateway, Touched: l.GatewayTouched, Scope: gatewayScope}),
		e.patching.addedListeners(),
	}
}

// routeGenerators returns the generator of RouteConfigurations, with EnvoyFilters applied.
func (e envoySet) routeGenerators() []view.Generator {
	return []view.Generator{e.patching.wrapRoutes(view.Generator{
		TypeURL:  api.RouteType,
		Named:    e.routes.Named,
		Affected: e.routes.Affected,
		Scope:    routeScope,
	})}
}

// secretGenerators returns the generator of secrets.
func (e envoySet) secretGenerators() []view.Generator {
	return []view.Generator{{
		TypeURL:  api.SecretType,
		Named:    e.secrets.Named,
		Affected: e.secrets.Affected,
		Touched:  secret.Touched,
		Scope:    secret.Scope,
		Local:    secret.OfFiles,
	}}
}
