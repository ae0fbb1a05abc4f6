// Package ingest takes what sources and registries say to the snapshot.
//
// In: sources and registries, and the converters that make services of objects. Out: a snapshot and a delta for each change,
// handed to a publisher, nothing before all sources are in sync. Law: one goroutine owns the converters and the Builder;
// a source's batch becomes one snapshot, and batches that wait together become one.
//
// Start with [Run].
package ingest
