// Package export creates a ServiceExport (Multi-Cluster Services API) for every service that other
// clusters of the set should see.
//
// Input: the list of Services to export, read again after each trigger. Output: a ServiceExport for
// each Service without one, owned by the Service, so that the API server's garbage collector
// deletes both.
//
// Invariants: existing exports are never changed. An export that a user deletes is not created
// again until the leader changes or the Service is replaced. If the kind is not installed, creation
// is retried. The leader runs it; if two replicas believe to be the leader, the second creation is
// refused.
//
// Start with [Exporter.Run] in exporter.go.
package export
