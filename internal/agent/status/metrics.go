package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// prefix is the prefix of all the agent's metrics, including the Go runtime's, because the
// application's metrics are merged with them and often include the same.
const prefix = "istio_agent_"

// Metrics are the agent's own metrics, under Istio's names.
type Metrics struct {
	registry *prometheus.Registry
	prefixed prometheus.Registerer // registry with the prefix
	scrapes  prometheus.Counter
	failures *prometheus.CounterVec
	startup  prometheus.Gauge

	requests, failedRequests, requestMillis *prometheus.CounterVec
	fileSecretFailures                      prometheus.Counter
	panics                                  *prometheus.CounterVec
}

// NewMetrics returns the metrics with a registry of their own, which includes metrics of the Go
// runtime and the process.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		scrapes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scrapes_total", Help: "Scrapes of the merged metrics.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scrape_failures_total", Help: "Failed sources that were left out of the merged metrics, by source.",
		}, []string{"type"}),
		startup: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "startup_duration_seconds", Help: "Seconds from the agent's start until the proxy was ready.",
		}),
		requests:       newRequestCounter("num_outgoing_requests", "Requests for certificates."),
		failedRequests: newRequestCounter("num_failed_outgoing_requests", "Requests for certificates that failed."),
		requestMillis: newRequestCounter("outgoing_latency",
			"Total duration of requests for certificates in milliseconds."),
		fileSecretFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "num_file_secret_failures_total", Help: "Certificate files that could not be used.",
		}),
	}
	m.panics = prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "panics_total", Help: "Recovered panics, by component."}, []string{"component"})
	m.prefixed = prometheus.WrapRegistererWithPrefix(prefix, m.registry)
	m.prefixed.MustRegister(
		m.scrapes, m.failures, m.startup, m.requests, m.failedRequests, m.requestMillis, m.fileSecretFailures, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// newRequestCounter returns an unregistered counter with the label request_type.
func newRequestCounter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"request_type"})
}

// Registerer returns a registerer for metrics of the agent's parts. Their names get the agent's
// prefix.
func (m *Metrics) Registerer() prometheus.Registerer { return m.prefixed }

// Describe sends the descriptions of all registered metrics, including metrics of the agent's
// parts.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// RecordRequest records duration and result of a request for a certificate. Failures are counted,
// too.
func (m *Metrics) RecordRequest(took time.Duration, err error) {
	const csr = "csr"
	m.requests.WithLabelValues(csr).Inc()
	m.requestMillis.WithLabelValues(csr).Add(float64(took.Milliseconds()))
	if err != nil {
		m.failedRequests.WithLabelValues(csr).Inc()
	}
}

// RecordPanic counts a recovered panic.
func (m *Metrics) RecordPanic(component string) { m.panics.WithLabelValues(component).Inc() }

// RecordFileSecretFailure counts a certificate file that could not be used.
func (m *Metrics) RecordFileSecretFailure() { m.fileSecretFailures.Inc() }

// RegisterExpiries registers gauges of the remaining lifetimes of certificates. when returns their
// expiry by name of the secret.
func (m *Metrics) RegisterExpiries(when func() map[string]time.Time) {
	m.prefixed.MustRegister(&expiryCollector{when: when, now: time.Now, desc: prometheus.NewDesc("cert_expiry_seconds",
		"Seconds until a certificate expires, negative if it has.", []string{"resource_name"}, nil)})
}

// expiryCollector collects a gauge per certificate, computed at the scrape.
type expiryCollector struct {
	when func() map[string]time.Time
	now  func() time.Time
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*expiryCollector)(nil)

// Describe sends the description of the gauges.
func (e *expiryCollector) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect sends a gauge for each certificate: the seconds until it expires, negative if it has.
func (e *expiryCollector) Collect(to chan<- prometheus.Metric) {
	for name, when := range e.when() {
		to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, when.Sub(e.now()).Seconds(), name)
	}
}

// RecordStartup records the duration from the agent's start until the proxy was ready.
func (m *Metrics) RecordStartup(d time.Duration) { m.startup.Set(d.Seconds()) }
