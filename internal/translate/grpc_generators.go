package translate

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/grpc"
)

// proxylessGenerators returns the generators for gRPC applications without a proxy: of clusters,
// endpoints, listeners of servers, listeners of clients, and routes, in this order. Each has output
// only for Views whose Key is Proxyless. e provides only the Affected function of endpoints.
func proxylessGenerators(g *grpc.Generator, e grpc.Envoy) []view.Generator {
	list := []view.Generator{
		{
			TypeURL: api.ClusterType,
			All:     g.Clusters,
			Update:  g.ClustersSince,
			Touched: cluster.Touched,
			Scope:   clusterScope,
		},
		{TypeURL: api.EndpointType, Named: g.Endpoints, Affected: e.Endpoints.Affected, Scope: endpointScope},
		{TypeURL: api.ListenerType, All: g.Servers, Touched: g.ServersTouched, Inbound: true, Scope: serverScope},
		{TypeURL: api.ListenerType, All: g.Clients, Touched: grpc.ClientsTouched, Scope: clientScope},
		{TypeURL: api.RouteType, Named: g.Route, Affected: g.RoutesAffected, Scope: routeScope},
	}
	for i := range list {
		list[i] = restrictTo(list[i], true)
	}
	return list
}

// restrictTo returns a copy of g with output only for Views whose Key.Proxyless.Enabled equals
// proxyless, and with that field in its Scope. All other Views have equal Scopes and share the
// empty output: no resources, and no change affects any. Without a Scope in g, the output depends
// on the whole Key.
func restrictTo(g view.Generator, proxyless bool) view.Generator {
	inner, mine := g, func(v *view.View) bool { return v.Key.Proxyless.Enabled == proxyless }
	g.Scope = func(k view.Key) view.Key {
		scope := view.Key{}
		switch {
		case k.Proxyless.Enabled != proxyless:
		case inner.Scope == nil:
			scope = k
		default:
			scope = inner.Scope(k)
		}
		scope.Proxyless.Enabled = k.Proxyless.Enabled
		return scope
	}
	if inner.All != nil {
		g.All = func(v *view.View) []*resource.Resource {
			if !mine(v) {
				return nil
			}
			return inner.All(v)
		}
	}
	if inner.Named != nil {
		g.Named = func(v *view.View, name string) *resource.Resource {
			if !mine(v) {
				return nil
			}
			return inner.Named(v, name)
		}
	}
	if inner.Every != nil {
		g.Every = func(v *view.View) []*resource.Resource {
			if !mine(v) {
				return nil
			}
			return inner.Every(v)
		}
	}
	return restrictChanges(g, inner, mine)
}

// restrictChanges returns g with Update, Affected and Touched of inner restricted to Views for
// which mine returns true. For other Views no change alters anything: the difference is empty, no
// name affected, nothing touched. Functions that inner lacks are left as they are in g.
func restrictChanges(g, inner view.Generator, mine func(*view.View) bool) view.Generator {
	if inner.Update != nil {
		g.Update = func(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
			if !mine(v) {
				return resource.Diff{}, true
			}
			return inner.Update(old, v, d)
		}
	}
	if inner.Affected != nil {
		g.Affected = func(old, v *view.View, d snapshot.Delta, names []string) []string {
			if !mine(v) {
				return nil
			}
			return inner.Affected(old, v, d, names)
		}
	}
	if inner.Touched != nil {
		g.Touched = func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
			return mine(v) && inner.Touched(v, s, d)
		}
	}
	return g
}

// clientScope returns the part of the Key that the result of grpc.Generator.Clients depends on: the
// services that are visible to the application, its type and its namespace.
func clientScope(k view.Key) view.Key {
	return view.Key{AttachedObjects: k.ObjectsFor(view.ServiceReader), Type: k.Type, Namespace: k.Namespace}
}

// serverScope returns the part of the Key that the result of grpc.Generator.Servers depends on:
// clusterScope, the application's own services, addresses and ports, its server credentials,
// whether it is called with mutual TLS, and its access policies.
func serverScope(k view.Key) view.Key {
	scope := clusterScope(k)
	scope.AttachedObjects = k.ObjectsFor(view.ApplicationReader)
	scope.Inbound, scope.ServerCredentials, scope.Proxyless = k.Inbound, k.ServerCredentials, k.Proxyless
	return scope
}
