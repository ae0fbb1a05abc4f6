// Package destination says which cluster a destination of a VirtualService means.
//
// In: a View, the VirtualService that names the destination, and the port on which the traffic was caught. Out:
// [mesh.ClusterName] values, and the [Share]s of a weighted route.
// Law: pure. A destination that nobody has (unknown host, subset or port) still gives a name: whether the cluster exists is
// not asked here, so that a route can be sent before, and outlive, what it points to.
//
// Start with [ClusterName]; [Shares] is for the TCP and TLS routes of listeners. unknown.go is about destinations that nobody
// knows, and dns_cache.go about those that proxies look up themselves.
package destination
