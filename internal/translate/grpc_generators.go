package translate

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/grpc"
)

// proxyless are the generators for gRPC applications.
func proxyless(g *grpc.Generator, e grpc.Envoy) []Generator {
	list := []Generator{
		{TypeURL: api.ClusterType, All: g.Clusters, Update: g.ClustersSince, Touched: cluster.Touched, Scope: clusterScope},
		{TypeURL: api.EndpointType, Named: g.Endpoints, Affected: e.Endpoints.Affected, Scope: endpointScope},
		{TypeURL: api.ListenerType, All: g.Servers, Touched: g.ServersTouched, Inbound: true, Scope: serverScope},
		{TypeURL: api.ListenerType, All: g.Clients, Touched: grpc.ClientsTouched, Scope: clientScope},
		{TypeURL: api.RouteType, Named: g.Route, Affected: g.RoutesAffected, Scope: routeScope},
	}
	for i := range list {
		list[i] = only(list[i], true)
	}
	return list
}

// only confines a generator to gRPC applications, or to Envoys. All others share that it gives them nothing.
func only(g Generator, proxyless bool) Generator {
	inner, mine := g, func(v *view.View) bool { return v.Key.Proxyless == proxyless }
	g.Scope = func(k view.Key) view.Key {
		scope := view.Key{}
		switch {
		case k.Proxyless != proxyless:
		case inner.Scope == nil:
			scope = k
		default:
			scope = inner.Scope(k)
		}
		scope.Proxyless = k.Proxyless
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
	return withChanges(g, inner, mine)
}

// withChanges confines what a generator says of changes.
func withChanges(g, inner Generator, mine func(*view.View) bool) Generator {
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

// clientScope: which targets there are is a matter of what the applications see.
func clientScope(k view.Key) view.Key {
	return view.Key{Type: k.Type, Namespace: k.Namespace, Sidecar: k.Sidecar}
}

// serverScope: servers are a matter of what the application serves, where it is, and who may call it.
func serverScope(k view.Key) view.Key {
	scope := clusterScope(k)
	scope.Inbound, scope.Peers, scope.Policies, scope.Server, scope.Addresses = k.Inbound, k.Peers, k.Policies, k.Server, k.Addresses
	scope.CalledWithTLS, scope.Ports = k.CalledWithTLS, k.Ports
	return scope
}
