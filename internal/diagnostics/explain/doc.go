// Package explain explains where a call goes and why. It follows the call through the resources of
// one proxy in the same way as Envoy.
//
// The inputs are the [Resources] of a proxy, from translation or from a config dump, and a [Call].
// The output is a [Path]. It has a [Step] for each decision, with the source objects, and the
// possible [Ending]s with their shares. The ending of a denied call has the response details of
// access logs. Its steps name the rule that denied it, or the rules that nearly match.
//
// The package is pure. It never guesses: a feature of Envoy that it does not implement becomes a
// step of the stage "unsupported". Random choices are reported as shares. It depends on Envoy's
// resources only, so it also explains configuration from EnvoyFilters and from other control
// planes. The tests in test/conformance/routing and test/conformance/authorization compare its
// results with real requests through Envoy.
//
// The files, in the order in which a call passes them:
//
//	question.go                from a call as users describe it to a Call
//	call.go                    the call: source, destination, protocol, request
//	resources.go               the resources of the proxy, decoded on demand
//	config_dump.go             the resources of a config dump of Envoy
//	explain.go                 the walk
//	listener.go                selects the listener, also by original destination
//	inspector.go               listener filters, which detect the protocol
//	filter_chain.go            selects the filter chain
//	network.go                 network filters; see also tcp_proxy.go and http.go
//	mutual.go                  plain text callers of a STRICT workload
//	path_normal.go             HTTP: path normalization
//	remote.go                  HTTP: the address of the original client
//	virtual_host.go            selects the virtual host and the route
//	route_match.go             route matches; see also header_match.go and string_match.go
//	fault.go cors.go           filters that answer or delay requests; reply.go has local replies
//	chain.go                   the order of HTTP filters, with ECDS
//	access.go policy.go        RBAC filters and their policies
//	permission.go principal.go conditions of policies
//	finding.go                 the results of conditions and the reasons for a mismatch
//	metadata.go template.go    dynamic metadata and path templates
//	jwt.go token.go            JWT authentication; token_place.go has the token locations
//	authorizer.go              external authorizers
//	action.go redirect.go      route actions
//	rewrite.go                 host and path rewrites
//	header_change.go           header changes
//	cluster.go endpoint.go     clusters and their endpoints
//	load.go dynamic.go         load balancing and dynamic clusters
//	object.go rule.go          the source objects of a decision, and the rules in them
//	text.go                    text output
//	response_flag.go           what response flags mean; response_flag_local.go those of the proxy itself
//
// Start reading with [Explain] in explain.go and [Path] in path.go.
package explain
