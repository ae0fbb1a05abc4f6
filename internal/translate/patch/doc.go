// Package patch applies EnvoyFilters to generated resources. It is the last step of translation. No
// other package modifies the resources of another.
//
// The inputs are the resources of one type for a View, and the names of its patches
// (snapshot.PatchNames). The outputs are patched copies. A resource that no patch can match is
// returned as the same pointer. A patch that cannot be applied leaves the resource unchanged and is
// a Problem of the EnvoyFilter; the other patches are still applied. The same holds for a patch
// after which Envoy would refuse the resource, as far as validation here can tell. The From of a
// resource includes the objects whose patches changed it.
//
// An outcome is cached by its whole input: the resource, and the patches that may match something
// in it. So proxies with equal input cost nothing, and an edit costs only the resources that it may
// match. The virtual hosts of a RouteConfiguration are cached one by one.
//
//	pass.go                  patch a View's resources of each type: start here
//	filter.go value.go       parse an EnvoyFilter, and the values of its patches to Envoy's messages
//	extensions.go            the message types that values may contain
//	selection.go wire.go     select the patches that may match a resource, without decoding it
//	cluster.go alpn.go       CLUSTER; ALPN names follow the patched HTTP version
//	listener.go chain.go     LISTENER, FILTER_CHAIN
//	filter_list.go           LISTENER_FILTER, NETWORK_FILTER, HTTP_FILTER
//	filter_class.go          the position of a filter by its filterClass
//	http_filter.go           patches inside HTTP connection managers
//	route.go virtual_host.go ROUTE_CONFIGURATION, VIRTUAL_HOST, HTTP_ROUTE
//	host_claims.go           refuse virtual hosts with conflicting names and domains
//	added.go                 clusters, listeners and extension configs that patches add
//	list.go merge.go any.go  edit lists, merge messages, merge packed messages
//	outcome.go problems.go   results of patches, as Problems
//
// In one resource, patches are applied by class from the outside in (listener, listener filters,
// chains, network filters, HTTP filters, routes), and within a class in the order of their names.
// Merges come after additions and removals, so a patch may merge into what another one has added,
// whichever comes first. Istio has the same order.
//
// Start with [Pass] in pass.go.
package patch
