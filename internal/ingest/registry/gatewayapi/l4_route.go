package gatewayapi

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// invalidBackend is the host of the destination that replaces backends that cannot be used: no
// cluster has its name, so proxies reset its share of the connections, or drop its share of the
// datagrams.
const invalidBackend = "invalid-backend"

// connectionRoutes returns the destinations of a rule for connections. The weight of unusable
// backends, or everything if none is usable, goes to a host that does not exist, so that these
// connections are reset. Verdicts go to r.resolved. Backends of weight 0 are left out.
func (r *routeReader) connectionRoutes(field string, refs []gatewayv1.BackendRef) []*networking.RouteDestination {
	var list []*networking.RouteDestination
	var invalid, valid uint32
	for i, b := range refs {
		to, v := r.backend(fmt.Sprintf("%s.backendRefs[%d]", field, i), b.BackendObjectReference)
		r.resolve(v)
		weight := weightOf(b.Weight)
		switch {
		case weight == 0:
		case to == nil:
			invalid += weight
		default:
			valid += weight
			//nolint:gosec // limited by the API
			list = append(list, &networking.RouteDestination{Destination: to, Weight: int32(weight)})
		}
	}
	if invalid > 0 || valid == 0 {
		list = append(list, &networking.RouteDestination{
			Destination: &networking.Destination{Host: invalidBackend + ".", Port: &networking.PortSelector{Number: 1}},
			Weight:      int32(max(invalid, 1)), //nolint:gosec // limited by the API
		})
	}
	return list
}

// readTLSRoute adds to r, for each rule, a TLS route for listeners that forward TLS, and a TCP
// route for listeners that terminate it. Without hosts it matches all server names.
func (r *routeReader) readTLSRoute(spec *gatewayv1.TLSRouteSpec, hosts []mesh.Hostname) {
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, string(h))
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	for i, rule := range spec.Rules {
		to := r.connectionRoutes(fmt.Sprintf("spec.rules[%d]", i), rule.BackendRefs)
		r.tls = append(r.tls, &networking.TLSRoute{Match: []*networking.TLSMatchAttributes{{SniHosts: names}},
			Route: to})
		r.tcp = append(r.tcp, &networking.TCPRoute{Route: to})
	}
}

// readConnections adds to r a TCP route for each rule of a TCPRoute or UDPRoute. Connections have
// nothing to match, so only the first takes effect.
func (r *routeReader) readConnections(rules [][]gatewayv1.BackendRef) {
	for i, refs := range rules {
		r.tcp = append(r.tcp, &networking.TCPRoute{Route: r.connectionRoutes(fmt.Sprintf("spec.rules[%d]", i), refs)})
	}
}
