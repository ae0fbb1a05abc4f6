package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// filterConfigs returns the route's configurations of HTTP filters for faults, CORS and persistent
// sessions, by the name of the filter. If several destinations have sessions, the first one's
// applies, as in Istio. The map is never nil.
func (t *translation) filterConfigs(r *networking.HTTPRoute) map[string]*anypb.Any {
	configs := map[string]*anypb.Any{}
	if f := newFault(r.GetFault()); f != nil {
		configs[faultFilter] = resource.Pack(f)
	}
	if c := r.GetCorsPolicy(); c != nil {
		configs[corsFilter] = resource.Pack(newCORS(c))
	}
	for _, d := range r.GetRoute() {
		if s := t.target(d.GetDestination()).session; s != (mesh.Session{}) {
			configs[sessionFilter] = resource.Pack(sessionConfig(s))
			break
		}
	}
	return configs
}

// extendFilters adds to out the configurations of HTTP filters of the extension x of rule r: for
// the route, and for each backend with a weight. A single backend's are set on the route. A backend
// that refuses requests (refuses) is replaced by invalidCluster, and its requests are answered with
// 500. It may set the idle timeout of the action (limitPickers). out.TypedPerFilterConfig must not
// be nil.
func (t *translation) extendFilters(out *routev3.Route, r *networking.HTTPRoute, x *config.HTTPExtension) {
	t.setFilters(out.TypedPerFilterConfig, config.BackendFilters{CORS: x.CORS, Authorizer: x.Authorizer})
	if x.Session != nil {
		out.TypedPerFilterConfig[sessionFilter] = resource.Pack(extendedSession(x.Session))
	}
	if out.GetRoute() == nil || len(x.Backends) == 0 {
		return
	}
	limitPickers(out.GetRoute(), x.Backends)
	if len(r.GetRoute()) == 1 {
		t.setFilters(out.TypedPerFilterConfig, x.Backends[0])
		if t.refuses(x.Backends[0]) {
			out.GetRoute().ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: invalidCluster}
			out.GetRoute().ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
		}
		return
	}
	clusters := out.GetRoute().GetWeightedClusters().GetClusters()
	for i, d := range r.GetRoute() {
		// Destinations without weight have no cluster.
		if d.GetWeight() <= 0 || len(clusters) == 0 || i >= len(x.Backends) {
			continue
		}
		clusters[0].TypedPerFilterConfig = map[string]*anypb.Any{}
		t.setFilters(clusters[0].TypedPerFilterConfig, x.Backends[i])
		if t.refuses(x.Backends[i]) {
			clusters[0].Name = invalidCluster
			out.GetRoute().ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
		}
		clusters = clusters[1:]
	}
}

// setFilters adds to configs, by the name of the filter, the configurations for a rule or for one
// of its destinations. The configuration of an endpoint picker that the proxies do not see is left
// out.
func (t *translation) setFilters(configs map[string]*anypb.Any, f config.BackendFilters) {
	if f.CORS != nil {
		configs[corsFilter] = resource.Pack(extendedCORS(f.CORS))
	}
	if f.Authorizer != nil {
		configs[routeFilter] = resource.Pack(runFilter(
			"envoy.filters.http.ext_authz", authorizerConfig(f.Authorizer, t.authorizerCluster(f.Authorizer)),
		))
	}
	if f.Picker != nil && t.isVisible(pickerDestination(f.Picker)) {
		configs[pickerFilter] = resource.Pack(pickerConfig(f.Picker, t.pickerCluster(f.Picker)))
	}
}
