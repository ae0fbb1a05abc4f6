package relay

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the relay, under Istio's names.
type Metrics struct {
	requests, responses         prometheus.Counter
	failures                    prometheus.Counter
	controlPlaneEnds, envoyEnds *prometheus.CounterVec
}

// NewMetrics returns the metrics of the xDS proxy, and registers them unless to is nil. It panics
// if they are registered there already.
func NewMetrics(to prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	ends := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"type"})
	}
	m := &Metrics{
		requests:         counter("xds_proxy_requests", "Requests forwarded to the control plane."),
		responses:        counter("xds_proxy_responses", "Responses received from the control plane."),
		failures:         counter("istiod_connection_failures", "Failed attempts to connect to the control plane."),
		controlPlaneEnds: ends("istiod_connection_terminations", "Streams ended by the control plane, by reason."),
		envoyEnds:        ends("envoy_connection_terminations", "Streams ended by Envoy, by reason."),
	}
	if to != nil {
		to.MustRegister(m.requests, m.responses, m.failures, m.controlPlaneEnds, m.envoyEnds)
	}
	return m
}
