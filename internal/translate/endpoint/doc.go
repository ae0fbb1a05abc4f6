// Package endpoint makes ClusterLoadAssignments: which endpoints a cluster has, and which of them a caller prefers.
//
// In: a service's endpoints, the DestinationRule for it, the gateways of networks, and where the calling proxies are. Out: the
// assignments of its clusters, for EDS, or one to put into a cluster whose names Envoy resolves itself.
// Law: pure. Equal inputs give equal bytes. An assignment depends on where the caller is only if that makes a difference: the
// cluster prefers near endpoints, is reached on the caller's node or in its cluster only, or has endpoints behind gateways of other
// networks. Otherwise all proxies of the mesh share it.
//
// The assignments of a service are made together ([Generator]): they change together, and one look then answers for all of its
// ports and subsets. They are written as bytes rather than built as messages (wire.go).
//
// Start with family.go, the clusters of a service, and assignment.go, one of them. select.go and local.go say which endpoints,
// group.go makes localities of them, network.go puts gateways in the place of those that are out of reach, priority.go and
// distribute.go prefer some. generator.go is what xDS asks, gateway.go what gateways ask besides.
package endpoint
