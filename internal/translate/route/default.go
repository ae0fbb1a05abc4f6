package route

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// defaultRoute is the name of the only route of a service without a VirtualService.
const defaultRoute = "default"

// serviceRoute returns the route of all requests for a service to its cluster, without a timeout,
// and with the mesh's retry policy, the rule's hash policy and the service's session.
func serviceRoute(in hostInput) *routev3.Route {
	cluster := mesh.ClusterName{Direction: mesh.Outbound, Port: in.names.port, Host: in.names.host}
	action := forwardAll(cluster.String())
	setTimeout(action, 0)
	action.RetryPolicy = retryPolicy(in.retry, false)
	if in.rule != nil {
		if p := newHashPolicy(in.rule, "", in.names.port); p != nil {
			action.HashPolicy = []*routev3.RouteAction_HashPolicy{p}
		}
	}
	r := &routev3.Route{
		Name: defaultRoute, Match: routeMatch(nil), Action: &routev3.Route_Route{Route: action},
		Decorator: &routev3.Decorator{Operation: operation(string(in.names.host), in.names.port) + "/*"},
	}
	if in.session != (mesh.Session{}) {
		r.TypedPerFilterConfig = map[string]*anypb.Any{sessionFilter: resource.Pack(sessionConfig(in.session))}
	}
	return r
}

// forwardAll returns the action that forwards requests to one cluster, without any other setting.
func forwardAll(cluster string) *routev3.RouteAction {
	return &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}
}

// passthroughRoute returns the route of all requests for unknown hosts to cluster, without a
// timeout (outboundTrafficPolicy ALLOW_ANY).
func passthroughRoute(cluster string) *routev3.Route {
	action := forwardAll(cluster)
	setTimeout(action, 0)
	return &routev3.Route{Name: "allow_any", Match: routeMatch(nil), Action: &routev3.Route_Route{Route: action}}
}

// blockedRoute returns the route that answers requests for unknown hosts with 502 (REGISTRY_ONLY).
func blockedRoute() *routev3.Route {
	return &routev3.Route{
		Name: "block_all", Match: routeMatch(nil),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}},
	}
}

// sendsAttempts reports whether requests carry the number of their attempt
// (ProxyConfig.proxyHeaders.attemptCount). They do unless that is disabled.
func sendsAttempts(v *view.View) bool {
	return !proxyHeaders(v).GetAttemptCount().GetDisabled().GetValue()
}

// proxyHeaders returns the settings of headers that proxies add (ProxyConfig.proxyHeaders).
func proxyHeaders(v *view.View) *meshconfig.ProxyConfig_ProxyHeaders {
	return v.Settings.Mesh.GetDefaultConfig().GetProxyHeaders()
}
