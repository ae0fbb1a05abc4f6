package wasm

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the module cache, under Istio's names.
type Metrics struct {
	entries                       prometheus.Gauge
	lookups, fetches, conversions *prometheus.CounterVec
}

// NewMetrics returns the metrics of a Cache, and registers them unless to is nil. It panics if they
// are registered there already.
func NewMetrics(to prometheus.Registerer) *Metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &Metrics{
		entries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wasm_cache_entries", Help: "Cached Wasm modules.",
		}),
		lookups: counter("wasm_cache_lookup_count",
			"Lookups of Wasm modules in the cache, by whether they were found.", "hit"),
		fetches: counter("wasm_remote_fetch_count", "Fetches of Wasm modules, by result.", "result"),
		conversions: counter("wasm_config_conversion_count",
			"Extensions searched for remote Wasm modules, by result.", "result"),
	}
	if to != nil {
		to.MustRegister(m.entries, m.lookups, m.fetches, m.conversions)
	}
	return m
}
