// Package endpoint generates ClusterLoadAssignments: the endpoints of a cluster, with their
// priorities for a caller.
//
// The inputs are a service's endpoints, its DestinationRule, the gateways of networks, and where
// the calling proxies run. The outputs are the assignments of the service's clusters, for EDS, or
// one assignment to embed in a cluster whose names Envoy resolves itself.
//
// Equal inputs yield equal bytes. An assignment depends on the caller's location only if the
// cluster prefers near endpoints, is reachable only on the caller's node or in its cluster, or has
// endpoints behind gateways of other networks. Otherwise all proxies of the mesh share it.
//
// The assignments of a service are generated and cached together ([Generator]), because they change
// together. They are encoded directly as bytes, not built as messages (wire.go).
//
// Start with family.go, the clusters of a service, and assignment.go, the assignment of one of
// them. Files select.go and reachable.go select the endpoints, group.go groups them by locality,
// network.go replaces unreachable ones by gateways, priority.go and distribute.go express
// preferences. File generator.go has the entry points for xDS, and sni_dnat.go the entry points for
// gateways.
package endpoint
