package explain

import "net/http"

// routingFlags returns the flags of requests for which the configuration has no destination.
func routingFlags() []ResponseFlag {
	return []ResponseFlag{
		{flagNoRoute, "NoRouteFound", http.StatusNotFound,
			"No route matches the request, or no filter chain matches the connection.",
			[]string{
				"`pilotctl explain NAME URL` names the virtual host, and the rules whose conditions nearly match",
				"at a gateway: hosts of the Gateway, hostnames of the route, and whether the route is attached (`pilotctl problems`)",
				"a host that the caller's Sidecar or exportTo hides, with outboundTrafficPolicy REGISTRY_ONLY (BlackHoleCluster)",
			}},
		{flagNoCluster, "NoClusterFound", http.StatusServiceUnavailable,
			"The route's cluster does not exist at the proxy.",
			[]string{
				"the destination's host, port or subset: `pilotctl problems` names a destination that does not exist",
				"`pilotctl proxy-config cluster NAME`: a Sidecar or exportTo may hide the service from the caller",
			}},
		{"NFCF", "NoFilterConfigFound", http.StatusInternalServerError,
			"The configuration of a filter was not received in time (ECDS).",
			[]string{"WasmPlugins whose module cannot be fetched",
				"`pilotctl proxy-config ecds NAME`, `pilotctl nacks`"}},
	}
}

// filterFlags returns the flags of requests that a filter answered, delayed or limited.
func filterFlags() []ResponseFlag {
	return []ResponseFlag{
		{flagDelayInjected, "DelayInjected", 0, "The request was delayed by a fault.",
			[]string{"fault.delay of the VirtualService's rule"}},
		{flagFaultInjected, "FaultInjected", 0, "The request was answered by a fault.",
			[]string{"fault.abort of the VirtualService's rule, which also sets the status"}},
		{"RL", "RateLimited", http.StatusTooManyRequests, "A rate limit was exceeded.",
			[]string{"only EnvoyFilters configure rate limits; a 429 without the flag is the application's"}},
		{"RLSE", "RateLimitServiceError", http.StatusInternalServerError, "The rate limit service failed.",
			[]string{"the EnvoyFilter with the rate limit, and its failure_mode_deny"}},
		{flagExtAuthzRefused, "UnauthorizedExternalService", http.StatusForbidden,
			"An external authorizer denied the request, or did not answer.",
			[]string{
				"the AuthorizationPolicy with action CUSTOM, or the filter ExternalAuth of an HTTPRoute",
				"its extensionProvider in the mesh configuration: service, port, timeout, failOpen, statusOnError",
				"`pilotctl explain NAME URL --authorizer fail` shows what happens without an answer",
			}},
		{"IH", "InvalidEnvoyRequestHeaders", http.StatusBadRequest,
			"A header of Envoy (x-envoy-...) has an invalid value.",
			[]string{"the client's headers, such as x-envoy-upstream-rq-timeout-ms"}},
		{"OM", "OverloadManagerTerminated", http.StatusServiceUnavailable, "The proxy is overloaded and refuses work.",
			[]string{"memory and connections of the proxy; overload settings of its bootstrap"}},
	}
}

// downstreamFlags returns the flags of failures between the client and the proxy.
func downstreamFlags() []ResponseFlag {
	return []ResponseFlag{
		{"DC", "DownstreamConnectionTermination", 0,
			"The client disconnected before it had the answer. The status, often 0, is not the endpoint's.",
			[]string{"the client's own timeout is shorter than the answer takes",
				"a load balancer in front of the gateway with an idle timeout"}},
		{"DR", "DownstreamRemoteReset", 0, "The client reset the stream (HTTP/2).",
			[]string{"the client cancelled the request, as gRPC clients do at their deadline"}},
		{"DT", "DurationTimeout", http.StatusGatewayTimeout, "The request or connection lasted longer than is allowed.",
			[]string{"of TCP connections: connectionPool.tcp.maxConnectionDuration of the DestinationRule",
				"of requests: max_stream_duration, from an EnvoyFilter"}},
		{"SI", "StreamIdleTimeout", http.StatusGatewayTimeout,
			"No data was sent in either direction for the idle timeout of the stream.",
			[]string{
				"the route's timeout at an InferencePool, whose endpoint picker did not answer",
				"stream_idle_timeout of the listener, or idle_timeout of the route, from an EnvoyFilter",
			}},
		{flagProtocolError, "DownstreamProtocolError", http.StatusBadRequest,
			"The client's bytes are not valid HTTP of the expected version.",
			[]string{
				"TLS to a port in plain text, or plain text to a port with TLS",
				"a server-first or other TCP protocol at a port whose name or appProtocol says http",
			}},
	}
}
