package status

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// prefix is of all the agent's metrics. Those of the Go runtime have it too: the application's are merged with them, and
// are often of a Go program.
const prefix = "istio_agent_"

// Metrics are the agent's own, under Istio's names.
type Metrics struct {
	registry *prometheus.Registry
	own      prometheus.Registerer // registry, with the prefix
	scrapes  prometheus.Counter
	failures *prometheus.CounterVec
	startup  prometheus.Gauge

	asked, askedInVain, askedMillis *prometheus.CounterVec
	fileSecretFailures              prometheus.Counter
	panics                          *prometheus.CounterVec
}

// NewMetrics makes the metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		scrapes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "scrapes_total", Help: "Scrapes of the merged metrics."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scrape_failures_total", Help: "Sources that were left out of the merged metrics, by source.",
		}, []string{"type"}),
		startup: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "startup_duration_seconds", Help: "Seconds from the agent's start until the proxy was ready.",
		}),
		asked:       outgoing("num_outgoing_requests", "Requests for certificates."),
		askedInVain: outgoing("num_failed_outgoing_requests", "Requests for certificates that failed."),
		askedMillis: outgoing("outgoing_latency", "Milliseconds that requests for certificates took, all together."),
		fileSecretFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "num_file_secret_failures_total", Help: "Files of certificates that could not be used.",
		}),
	}
	m.panics = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "panics_total", Help: "Recovered panics, by component."}, []string{"component"})
	m.own = prometheus.WrapRegistererWithPrefix(prefix, m.registry)
	m.own.MustRegister(m.scrapes, m.failures, m.startup, m.asked, m.askedInVain, m.askedMillis, m.fileSecretFailures, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func outgoing(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"request_type"})
}

// Registerer is where the agent's parts register metrics of their own. Names get the agent's prefix.
func (m *Metrics) Registerer() prometheus.Registerer { return m.own }

// Describe says which metrics there are, those of the agent's parts too.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Asked records a request for a certificate.
func (m *Metrics) Asked(took time.Duration, err error) {
	const csr = "csr"
	m.asked.WithLabelValues(csr).Inc()
	m.askedMillis.WithLabelValues(csr).Add(float64(took.Milliseconds()))
	if err != nil {
		m.askedInVain.WithLabelValues(csr).Inc()
	}
}

// Panicked counts a recovered panic.
func (m *Metrics) Panicked(component string) { m.panics.WithLabelValues(component).Inc() }

// FileSecretFailed records files of a certificate that could not be used.
func (m *Metrics) FileSecretFailed() { m.fileSecretFailures.Inc() }

// Expiries has how long certificates still live shown, by the names of their secrets.
func (m *Metrics) Expiries(when func() map[string]time.Time) {
	m.own.MustRegister(&expiries{when: when, now: time.Now, desc: prometheus.NewDesc("cert_expiry_seconds",
		"Seconds until a certificate expires, negative if it has.", []string{"resource_name"}, nil)})
}

// expiries is a gauge for each certificate, as of the scrape.
type expiries struct {
	when func() map[string]time.Time
	now  func() time.Time
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*expiries)(nil)

// Describe says what Collect gives.
func (e *expiries) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect gives the gauges.
func (e *expiries) Collect(to chan<- prometheus.Metric) {
	for name, when := range e.when() {
		to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, when.Sub(e.now()).Seconds(), name)
	}
}

// Started records how long it took until the proxy was ready.
func (m *Metrics) Started(d time.Duration) { m.startup.Set(d.Seconds()) }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
