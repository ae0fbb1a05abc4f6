// Package export makes a ServiceExport (Multi-Cluster Services API) of every service that other clusters of the set are to know.
//
// In: which Services those are, asked for again when something changed. Out: a ServiceExport for each that has none, owned by its Service,
// so that the API server's garbage collector takes it away with that.
//
// Law: an export that is there is never touched, whoever made it; one that somebody deletes is not made again before another replica
// leads, or the Service is another. Where the kind is not installed it is waited for. One replica runs it, the leader; that two
// believe to be costs a request that is refused.
//
// Start with [Exporter.Run].
package export
