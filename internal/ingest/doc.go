// Package ingest runs sources and registries and builds a snapshot from their events.
//
// The inputs are the feeds (sources and registries) and the converters that convert objects to
// services. The outputs are a snapshot and a delta per change, passed to Options.Publish. Nothing
// is published before all feeds are in sync, because a partial mesh is worse than the configuration
// that proxies already have. One goroutine owns the converters and the Builder. A batch of a feed
// becomes one snapshot; batches that are waiting are merged into one.
//
// Start reading with [Run] in ingest.go. precedence.go decides between feeds that have the same
// object; recover.go confines panics; preview.go copies the state, so that the effect of a change
// can be computed without making it.
package ingest
