// Package offline builds snapshots and proxies from manifests alone, for comparisons without a
// control plane.
//
// The inputs are files with objects and a MeshConfig. The outputs are snapshots, made by the
// converters and the Builder of the control plane with its default settings, and the proxies that
// the objects imply: one per workload, one per namespace without workloads, and one per selector of
// Gateways that selects no workload. Nothing is watched, and no network is used.
//
// Start reading with [NewMesh] in mesh.go. objects.go reads files, proxies.go derives proxies.
package offline
