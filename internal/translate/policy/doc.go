// Package policy says which traffic policy holds for one cluster: of all that a DestinationRule says of the host, its
// ports and its subsets, and the mesh of everything, the part that counts.
//
// In: a DestinationRule, the name of a subset and the number of a port. Out: one TrafficPolicy, and from it the way in which
// the cluster prefers near endpoints.
// Law: pure. What it gives shares its parts with what it was given, and must not be changed.
//
// Start with [Of]; locality.go is the preference for near endpoints, which shapes the cluster and its endpoints alike, and
// tunnel.go what TCP proxies of listeners wrap connections into.
package policy
