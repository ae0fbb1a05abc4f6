// Package endpoint makes ClusterLoadAssignments: which endpoints a cluster has, and which of them a caller prefers.
//
// In: a service's endpoints, the DestinationRule for it, and where the calling proxies are. Out: the assignment of one
// cluster, for EDS, or to put into a cluster whose names Envoy resolves itself.
// Law: pure. Equal inputs give equal bytes. An assignment depends on where the caller is only if the cluster prefers near
// endpoints; otherwise all proxies of the mesh share it.
//
// Start with [Assignment] in assignment.go. select.go says which endpoints, group.go makes localities of them, priority.go
// and distribute.go prefer some; generator.go is what xDS asks.
package endpoint
