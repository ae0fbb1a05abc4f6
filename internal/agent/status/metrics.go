package status

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

const (
	// scrapeTimeout bounds each source of the merged metrics.
	scrapeTimeout = 5 * time.Second
	// maxScrape bounds what is read of the application's metrics, in bytes.
	maxScrape = 64 << 20
)

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
		scrapes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "istio_agent_scrapes_total", Help: "Scrapes of the merged metrics."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "istio_agent_scrape_failures_total", Help: "Failed scrapes by source."}, []string{"type"}),
		startup:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "istio_agent_startup_duration_seconds", Help: "Seconds from the agent's start until the proxy was ready."}),
	}
	m.registry.MustRegister(m.scrapes, m.failures, m.startup,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Started records how long it took until the proxy was ready.
func (m *Metrics) Started(d time.Duration) { m.startup.Set(d.Seconds()) }

// scraper merges the metrics of Envoy, the application and the agent into one answer.
type scraper struct {
	Options
	client *http.Client
}

func scrapeClient() *http.Client {
	return &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{Proxy: nil}}
}

// merged writes Envoy's metrics, the agent's, and last the application's, which may be in any format version. A source
// that fails is left out and counted: the others are still worth having.
func (s *scraper) merged(w http.ResponseWriter, r *http.Request) {
	s.Metrics.scrapes.Inc()
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	if envoy, err := s.Envoy.Prometheus(ctx); err != nil {
		s.failed("envoy", err)
	} else if _, err := w.Write(envoy); err != nil {
		return // the client went away
	}
	if err := s.own(w); err != nil {
		s.failed("agent", err)
	}
	if s.Application != nil {
		if err := s.application(ctx, w, r, s.Application); err != nil {
			s.failed("application", err)
		}
	}
}

func (s *scraper) failed(source string, err error) {
	s.Metrics.failures.WithLabelValues(source).Inc()
	s.Log.Debug("merge metrics: leave out "+source, "error", err)
}

func (s *scraper) own(w io.Writer) error {
	families, err := s.Metrics.registry.Gather()
	if err != nil {
		return err
	}
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *scraper) application(ctx context.Context, w io.Writer, asked *http.Request, target *environment.Application) error {
	url := fmt.Sprintf("http://localhost:%d%s", target.Port, target.Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, name := range []string{"User-Agent", "X-Prometheus-Scrape-Timeout-Seconds"} {
		if v := asked.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	_, err = io.Copy(w, io.LimitReader(answer.Body, maxScrape))
	return err
}
