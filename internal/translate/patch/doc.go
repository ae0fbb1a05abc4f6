// Package patch applies EnvoyFilters to finished resources: the last step of translation, and the only one that changes
// what another has made.
//
// In: the resources of one type for a View, and the names of the patches that hold for it (snapshot.PatchNames). Out: the
// resources as patched. Law: pure, and a copy; a resource in which no patch may find anything is the same pointer as before.
// A patch that cannot be applied, or after which Envoy would refuse the resource as far as that can be told here, leaves the
// resource as it was, and is a Problem of the EnvoyFilter; the other patches go on. An object whose patch shaped a resource is
// in its From.
//
// What a patched resource was made of (the resource, and the patches that may find something in it) is what it is
// remembered by: alike proxies cost nothing, and an edit costs the resources in which it may find something. Of a
// RouteConfiguration that is so for each virtual host.
//
//	pass.go                  a View's resources of each type, patched: start here
//	filter.go value.go       an EnvoyFilter is read: the values of its patches become Envoy's messages
//	extensions.go            the message types that values may have inside
//	selection.go wire.go     which patches may find something in a resource, told without decoding it
//	cluster.go alpn.go       CLUSTER; what it offers by ALPN follows the HTTP version that patches have it speak
//	listener.go chain.go     LISTENER, FILTER_CHAIN
//	filter_list.go           LISTENER_FILTER, NETWORK_FILTER, HTTP_FILTER; filter_class.go is where filterClass puts one
//	http_filter.go           what is inside HTTP connection managers
//	route.go virtual_host.go ROUTE_CONFIGURATION, VIRTUAL_HOST, HTTP_ROUTE; host_claims.go keeps virtual hosts apart
//	added.go                 clusters, listeners and extension configs that patches add
//	list.go merge.go any.go  what operations do to lists, messages and what messages have packed inside
//	outcome.go problems.go   what became of each patch, for people
//
// In one resource patches are applied class by class, from the outside in (listener, listener filters, chains, network
// filters, HTTP filters, routes), within a class in the order of their names, except that merges come after what adds and
// removes: so a patch may merge into what another has added, whichever comes first. That is the order that Istio's users know.
//
// Start with [Pass] in pass.go.
package patch
