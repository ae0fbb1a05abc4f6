// Package snapshot holds the whole mesh at one moment: services, endpoints, workloads and config objects, joined and indexed.
//
// In: batches of events from sources and registries. Out: an immutable [Snapshot] and the [Delta] that names what changed.
// Law: does no I/O and reads no clock. Rows keep their identity from one snapshot to the next as long as their content
// stays the same, so pointer equality is content equality: whoever keys on a row keys on its content.
//
// Start with [Builder.Apply] in builder.go, then [Snapshot] in snapshot.go. Each index has a file of its own:
// configs.go, services.go (with claims.go, service_join.go, entry_endpoints.go and allocation.go), endpoints.go, workloads.go,
// destination_rules.go, virtual_service_index.go (with delegates.go), gateways.go.
package snapshot
