package dns

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of the DNS proxy, under Istio's names.
type metrics struct {
	requests, upstream, failures, cached prometheus.Counter
	duration                             prometheus.Histogram
}

// newMetrics returns the metrics of the DNS proxy, registered with to unless that is nil. It panics
// if they are registered already.
func newMetrics(to prometheus.Registerer) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := metrics{
		requests: counter("dns_requests_total", "Queries of the application."),
		upstream: counter("dns_upstream_requests_total", "Queries forwarded to upstream name servers."),
		failures: counter("dns_upstream_failures_total", "Forwarded queries that no upstream name server answered."),
		cached:   counter("dns_cached_answers_total", "Queries answered from the cache of upstream answers."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dns_upstream_request_duration_seconds", Help: "Seconds until an upstream name server answered.",
			Buckets: []float64{.001, .005, .01, .1, 1, 5},
		}),
	}
	if to != nil {
		to.MustRegister(m.requests, m.upstream, m.failures, m.cached, m.duration)
	}
	return m
}
