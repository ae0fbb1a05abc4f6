package relay

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of the relay, under Istio's names.
type Metrics struct {
	requests, responses     prometheus.Counter
	failures                prometheus.Counter
	controlPlaneEnds, envoy *prometheus.CounterVec
}

// NewMetrics registers them, where there is somewhere to.
func NewMetrics(to prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	ends := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"type"})
	}
	m := &Metrics{
		requests:         counter("xds_proxy_requests", "Requests passed on to the control plane."),
		responses:        counter("xds_proxy_responses", "Responses that came from the control plane."),
		failures:         counter("istiod_connection_failures", "Attempts to reach the control plane that failed."),
		controlPlaneEnds: ends("istiod_connection_terminations", "Streams that the control plane ended, by how."),
		envoy:            ends("envoy_connection_terminations", "Streams that Envoy ended, by how."),
	}
	if to != nil {
		to.MustRegister(m.requests, m.responses, m.failures, m.controlPlaneEnds, m.envoy)
	}
	return m
}
