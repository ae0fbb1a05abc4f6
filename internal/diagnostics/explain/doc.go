// Package explain says where a call goes, and why: it walks the resources of one proxy as Envoy would.
//
// In: the resources of a proxy, as translation gives them or as a config dump holds them ([Resources]), and a [Call]. Out: a
// [Path]: one [Step] for everything that decided something, with the objects that it came from, and the [Ending]s that the call
// may have, with their shares. A call that is refused ends with the text that access logs have for it, and its steps say by which rule,
// or which rules it nearly fits.
//
// Law: pure, and honest. What this package does not know of Envoy is a step that says "unsupported", never a guess; what is
// random is told as shares. It knows Envoy's resources only, not how they are made: so it also explains what another control plane
// or an EnvoyFilter made. That Envoy does the same, test/conformance/routing and
// test/conformance/authorization hold it to, with real requests.
//
// The way of a call through the files:
//
//	call.go           what is sent, where from and to
//	resources.go      what the proxy has, decoded as it is needed
//	explain.go        the walk
//	listener.go       which listener takes the connection, handed on by its original destination
//	inspector.go      what listener filters find out about it
//	filter_chain.go   which filter chain matches
//	network.go        what the chain does with it; tcp_proxy.go, http.go
//	mutual.go         a caller who does not speak the mutual TLS that is wanted
//	path_normal.go remote.go   HTTP: the path made canonical, and who the first caller is
//	virtual_host.go route_match.go header_match.go string_match.go   which route takes the request
//	fault.go cors.go  filters that answer or delay it, in the way of reply.go
//	chain.go          the HTTP filters in their order, those that come by ECDS too
//	access.go policy.go   who may call: the rules of a filter
//	permission.go principal.go finding.go metadata.go template.go   whether a call is one that a rule means, and if not why
//	jwt.go token.go token_place.go   tokens; authorizer.go those who are asked
//	action.go redirect.go rewrite.go header_change.go   what the route does with it
//	cluster.go endpoint.go load.go dynamic.go   where that leads
//	object.go rule.go which objects have decided, and which rule within them
//	text.go           how it all prints
//
// Start with [Explain] in explain.go and [Path] in path.go.
package explain
