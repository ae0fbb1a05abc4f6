// Package metrics records the events of the xDS packages in the control plane's metrics.
//
// Inputs: the calls of push.Metrics and feed.Metrics. Outputs: counters, gauges and histograms of
// obs.Metrics, whose names are istiod's.
//
// Invariant: the number of series is bounded. Values that a proxy chooses become labels only in the
// limited form of version_label.go.
//
// Start with [Metrics] in metrics.go.
package metrics
