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
	scrapes  prometheus.Counter
	failures *prometheus.CounterVec
	startup  prometheus.Gauge
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
	}
	prometheus.WrapRegistererWithPrefix(prefix, m.registry).MustRegister(m.scrapes, m.failures, m.startup,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Started records how long it took until the proxy was ready.
func (m *Metrics) Started(d time.Duration) { m.startup.Set(d.Seconds()) }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
