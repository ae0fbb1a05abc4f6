package config

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// connectionManagerName is the name of the network filter that contains the HTTP filters.
const connectionManagerName = "envoy.filters.network.http_connection_manager"

// checkEnvoyListenerMatch adds Errors for invalid ports and filters (checkEnvoyFilterMatch) in a
// match on a listener, which may be nil. Fields and values without effect are Warnings.
func (r *report) checkEnvoyListenerMatch(
	at path,
	applyTo networking.EnvoyFilter_ApplyTo,
	match *networking.EnvoyFilter_ListenerMatch,
) {
	if match == nil {
		return
	}
	r.checkOptionalPort(at.Child("portNumber"), match.GetPortNumber())
	if match.GetPortName() != "" {
		r.warnf(at.Child("portName"), "is not looked at: use portNumber")
	}
	if match.GetListenerFilter() != "" && applyTo != networking.EnvoyFilter_LISTENER_FILTER {
		r.warnf(at.Child("listenerFilter"), "has an effect for applyTo LISTENER_FILTER only")
	}
	r.warnFilterName(at.Child("listenerFilter"), match.GetListenerFilter())
	chain := match.GetFilterChain()
	r.checkOptionalPort(at.Child("filterChain", "destinationPort"), chain.GetDestinationPort())
	if chain.GetFilter() != nil {
		r.checkEnvoyFilterMatch(at.Child("filterChain", "filter"), applyTo, chain.GetFilter())
	}
}

// checkEnvoyFilterMatch adds Errors for a filter match without a name, and for an invalid
// subFilter. A subFilter needs applyTo HTTP_FILTER, the HTTP connection manager as its filter, and
// a name. It adds Warnings for names from before Envoy 1.14, and if applyTo is neither
// NETWORK_FILTER nor HTTP_FILTER.
func (r *report) checkEnvoyFilterMatch(
	at path,
	applyTo networking.EnvoyFilter_ApplyTo,
	match *networking.EnvoyFilter_ListenerMatch_FilterMatch,
) {
	switch applyTo {
	case networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER:
	default:
		r.warnf(at, "has no effect for applyTo %s", applyTo)
	}
	r.requireValue(at.Child("name"), match.GetName())
	r.warnFilterName(at.Child("name"), match.GetName())
	sub := match.GetSubFilter()
	if sub == nil {
		return
	}
	at = at.Child("subFilter")
	switch {
	case applyTo != networking.EnvoyFilter_HTTP_FILTER:
		r.errorf(at, "can be matched for applyTo HTTP_FILTER only")
	case match.GetName() != "" && match.GetName() != connectionManagerName:
		r.errorf(at, "only %q has filters inside", connectionManagerName)
	default:
		r.requireValue(at.Child("name"), sub.GetName())
		r.warnFilterName(at.Child("name"), sub.GetName())
	}
}

// checkEnvoyRouteMatch adds an Error for an invalid port number of a match on routes. portName and
// gateway have no effect unless the context is GATEWAY or ANY; they are Warnings then.
func (r *report) checkEnvoyRouteMatch(at path, match *filterMatch) {
	routes := match.GetRouteConfiguration()
	r.checkOptionalPort(at.Child("portNumber"), routes.GetPortNumber())
	if match.GetContext() == networking.EnvoyFilter_GATEWAY || match.GetContext() == networking.EnvoyFilter_ANY {
		return
	}
	if routes.GetPortName() != "" {
		r.warnf(at.Child("portName"), "has an effect for context GATEWAY only")
	}
	if routes.GetGateway() != "" {
		r.warnf(at.Child("gateway"), "has an effect for context GATEWAY only")
	}
}

// warnFilterName adds a Warning for a filter name from before Envoy 1.14, because no generated
// filter has it.
func (r *report) warnFilterName(at path, name string) {
	if now := renamedFilter(name); now != "" {
		r.warnf(at, "%q is now called %q, so nothing matches", name, now)
	}
}

// renamedFilter returns the current name of a filter of Envoy, or "" if name is not exactly one of
// the old names ("envoy.router").
func renamedFilter(name string) string {
	switch name {
	case "envoy.buffer", "envoy.cors", "envoy.csrf", "envoy.ext_authz", "envoy.fault", "envoy.grpc_http1_bridge",
		"envoy.grpc_json_transcoder", "envoy.grpc_web", "envoy.gzip", "envoy.health_check", "envoy.ip_tagging",
		"envoy.lua",
		"envoy.router", "envoy.squash":
		return "envoy.filters.http." + strings.TrimPrefix(name, "envoy.")
	case "envoy.rate_limit":
		return "envoy.filters.http.ratelimit"
	case "envoy.http_connection_manager",
		"envoy.client_ssl_auth",
		"envoy.echo",
		"envoy.mongo_proxy",
		"envoy.redis_proxy",
		"envoy.tcp_proxy":
		return "envoy.filters.network." + strings.TrimPrefix(name, "envoy.")
	case "envoy.listener.http_inspector", "envoy.listener.original_dst", "envoy.listener.original_src",
		"envoy.listener.proxy_protocol", "envoy.listener.tls_inspector":
		return "envoy.filters." + strings.TrimPrefix(name, "envoy.")
	default:
		return ""
	}
}
