// Package health computes the gauges of anomalies in configuration, sources and proxies.
//
// Inputs: the newest snapshot, the debug pages' findings, the pusher, and the sources that read API
// servers. Output: gauges of obs.Metrics.
//
// Invariant: the gauges are computed only when metrics are scraped, and at most once in 10 seconds,
// because some are expensive.
//
// Start with [Gauges.Handler] in health.go.
package health
