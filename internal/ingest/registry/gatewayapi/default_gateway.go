package gatewayapi

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// defaultParent returns the key by which routes that use default Gateways are indexed by parent. No
// Gateway has this name.
func defaultParent() config.Key { return config.Key{Kind: api.KubernetesGateway, Name: "*"} }

// isDefault reports whether routes that use default Gateways attach to a Gateway, which may be nil.
func (g *gateway) isDefault() bool {
	return g != nil && g.spec.DefaultScope == gatewayv1.GatewayDefaultScopeAll
}

// defaultParents returns references to the default Gateways that are not among the route's parents
// already, sorted by name. It returns nil if the route does not use default Gateways.
func (c *Converter) defaultParents(route *config.Config, spec gatewayv1.CommonRouteSpec) []gatewayv1.ParentReference {
	if spec.UseDefaultGateways != gatewayv1.GatewayDefaultScopeAll {
		return nil
	}
	group, kind := gatewayGroup, gatewayv1.Kind("Gateway")
	parents := routeParents(route)
	var list []gatewayv1.ParentReference
	for _, n := range slices.SortedFunc(maps.Keys(c.gateways), compareNames) {
		if !c.gateways[n].isDefault() || slices.Contains(parents, gatewayKey(n)) {
			continue
		}
		namespace := gatewayv1.Namespace(n.Namespace)
		list = append(list, gatewayv1.ParentReference{
			Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(n.Name),
		})
	}
	return list
}
