// Package destination resolves the destinations of VirtualServices to names of clusters.
//
// The inputs are a View, the VirtualService that contains the destination, and the port on which
// the traffic was captured. The outputs are [mesh.ClusterName] values, and the [Share]s of a
// weighted route. The functions are pure. They do not check whether a cluster exists: a destination
// with an unknown host, subset or port has a name too, so a route can be sent before its cluster,
// and outlive it.
//
// Start with [Named]; [Shares] is for the TCP and TLS routes of listeners, and [Unknown] is the cluster
// of destinations that are not in the mesh. File dns_cache.go has the cache for names that proxies
// resolve themselves.
package destination
