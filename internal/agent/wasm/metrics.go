package wasm

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of modules, under Istio's names.
type Metrics struct {
	entries                       prometheus.Gauge
	lookups, fetches, conversions *prometheus.CounterVec
}

// NewMetrics registers them, where there is somewhere to.
func NewMetrics(to prometheus.Registerer) *Metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &Metrics{
		entries:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "wasm_cache_entries", Help: "Wasm modules that are kept."}),
		lookups:     counter("wasm_cache_lookup_count", "Wasm modules that were asked for, by whether they were there.", "hit"),
		fetches:     counter("wasm_remote_fetch_count", "Wasm modules that were fetched, by how it went.", "result"),
		conversions: counter("wasm_config_conversion_count", "Extensions that were looked at for Wasm modules, by what became of them.", "result"),
	}
	if to != nil {
		to.MustRegister(m.entries, m.lookups, m.fetches, m.conversions)
	}
	return m
}
