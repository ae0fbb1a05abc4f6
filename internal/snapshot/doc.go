// Package snapshot builds the state of the whole mesh at one moment: services, endpoints, workloads
// and config objects, merged and indexed.
//
// The inputs are batches of events from sources and registries. The outputs are an immutable
// [Snapshot] and the [Delta] to the previous one. The package does no I/O and reads no clock, so
// equal events produce equal snapshots in all replicas. Rows (services, endpoint sets, merged
// rules) keep their pointer from one snapshot to the next while their content is unchanged.
// Comparing pointers therefore compares content, and a cache that is keyed by rows is keyed by
// content.
//
// Start reading with [Builder.Apply] in builder.go, then [Snapshot] in snapshot.go. Each index has
// its own file: configs.go, services.go (with service_definitions.go, service_merge.go,
// entry_endpoints.go and allocation.go), endpoints.go, workloads.go, destination_rules.go,
// virtual_service_index.go (with delegates.go), gateways.go. An event that causes a panic is
// handled in refused_events.go and rollback.go.
package snapshot
