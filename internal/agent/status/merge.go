package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
)

const (
	// scrapeTimeout bounds reading each source, unless the scraper sends its own timeout.
	// Prometheus's default is 10 s for the whole scrape.
	scrapeTimeout = 5 * time.Second
	// scrapeTimeoutHeader has the timeout of the whole scrape. Longer ones than maxScrapeTimeout do
	// not count.
	scrapeTimeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
	maxScrapeTimeout    = time.Hour
	// maxScrape bounds the size of the application's metrics, in bytes.
	maxScrape = 64 << 20
)

// merger serves the merged metrics of Envoy, the agent and the application.
type merger struct {
	Options
	client *http.Client
	// limit is maxScrape, or less in tests.
	limit int64

	mu sync.Mutex
	// missing are the sources that failed in the last scrape.
	missing map[string]bool
}

// newMerger returns a merger with an HTTP client that ignores the environment's proxies.
func newMerger(o Options) *merger {
	client := &http.Client{Transport: &http.Transport{
		Proxy:        nil, // the environment's HTTP_PROXY must not apply to the application beside the agent
		MaxIdleConns: 1, IdleConnTimeout: time.Minute,
	}}
	return &merger{Options: o, client: client, limit: maxScrape, missing: map[string]bool{}}
}

// source is one source of the merged metrics.
type source struct {
	// kind labels the metric of failures. name identifies the source in logs.
	kind, name string
	read       func(context.Context, *http.Request) ([]byte, error)
}

// ownSources returns the sources that precede the application in the output: the agent, and Envoy
// if there is one.
func (m *merger) ownSources() []source {
	list := []source{{"agent", "agent", m.readAgent}}
	if m.Envoy != nil {
		list = append(list, source{"envoy", "envoy", m.readEnvoy})
	}
	return list
}

// ServeHTTP serves the metrics of the agent, of Envoy and of the applications, in this order and in
// the format of the applications. A source that fails or takes longer than timeoutOf the request is
// left out as a whole, logged and counted. A truncated line would invalidate the others. The status
// is 200 even then.
func (m *merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Metrics.scrapes.Inc()
	format, texts := m.readApplications(r)
	isOpenMetrics := format.FormatType() == expfmt.TypeOpenMetrics
	w.Header().Set("Content-Type", string(format))
	for _, s := range m.ownSources() {
		ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
		text, err := s.read(ctx, r)
		cancel()
		if m.recordResult(s.kind, s.name, err); err != nil {
			continue
		}
		if isOpenMetrics {
			text = asOpenMetrics(text)
		}
		if err := writeLines(w, text); err != nil {
			return // the client has disconnected
		}
	}
	for _, text := range texts {
		if err := writeLines(w, text); err != nil {
			return // the client has disconnected
		}
	}
	if isOpenMetrics {
		_, _ = expfmt.FinalizeOpenMetrics(w) // fails if the client has disconnected
	}
}

// writeLines writes text, and ends its last line. It writes nothing if text is empty.
func writeLines(w io.Writer, text []byte) error {
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	_, err := w.Write(text)
	return err
}

// timeoutOf returns how long each source may take: the scraper's timeout, which Prometheus sends in
// the header X-Prometheus-Scrape-Timeout-Seconds. Without a number above 0 and below
// maxScrapeTimeout it is scrapeTimeout.
func timeoutOf(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get(scrapeTimeoutHeader), 64)
	if err != nil || !(seconds > 0 && seconds < maxScrapeTimeout.Seconds()) {
		return scrapeTimeout
	}
	return time.Duration(seconds * float64(time.Second))
}

// recordResult counts a failure of a source, and logs when a source begins to fail and when it
// recovers.
func (m *merger) recordResult(kind, name string, err error) {
	m.logChange(name, err)
	if err != nil {
		m.Metrics.failures.WithLabelValues(kind).Inc()
	}
}

// logChange logs when a source begins to fail and when it recovers. It logs nothing while the state
// of the source stays the same.
func (m *merger) logChange(source string, err error) {
	m.mu.Lock()
	was := m.missing[source]
	m.missing[source] = err != nil
	m.mu.Unlock()
	switch {
	case err != nil && !was:
		m.Log.Warn("metrics source failed, merging without it", "source", source, "error", err)
	case err == nil && was:
		m.Log.Info("metrics source recovered", "source", source)
	}
}

// readAgent returns the agent's metrics in Prometheus's text format.
func (m *merger) readAgent(context.Context, *http.Request) ([]byte, error) {
	families, err := m.Metrics.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.GetName(), err)
		}
	}
	return text.Bytes(), nil
}

// readEnvoy returns the proxy's metrics in Prometheus's text format, with Istio's labels expanded.
// The query of the request, such as filter=REGEX or usedonly, is passed to Envoy.
func (m *merger) readEnvoy(ctx context.Context, asked *http.Request) ([]byte, error) {
	text, err := m.Envoy.Prometheus(ctx, asked.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return newLabeler(m.Workload).rewriteMetrics(text), nil
}

// serveEnvoy serves the proxy's metrics alone. Envoy's own Prometheus port is routed here. It
// responds 404 without an Envoy and 503 if that fails.
func (m *merger) serveEnvoy(w http.ResponseWriter, r *http.Request) {
	if m.Envoy == nil {
		http.Error(w, "no envoy is running", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
	defer cancel()
	text, err := m.readEnvoy(ctx, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(text) // fails if the client has disconnected
}
