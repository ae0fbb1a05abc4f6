package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net"
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

// listSources returns the sources in output order: the agent, Envoy if there is one, and the
// endpoints of the application.
func (m *merger) listSources() []source {
	list := []source{{"agent", "agent", m.readAgent}}
	if m.Envoy != nil {
		list = append(list, source{"envoy", "envoy", m.readEnvoy})
	}
	for _, a := range m.Applications {
		url := "http://" + net.JoinHostPort("localhost", strconv.FormatUint(uint64(a.Port), 10)) + a.Path
		list = append(list, source{"application", "application " + url,
			func(ctx context.Context, asked *http.Request) ([]byte, error) {
				return m.readApplication(ctx, url, asked)
			}})
	}
	return list
}

// ServeHTTP serves the metrics of all sources. A source that fails or takes longer than timeoutOf
// the request is left out as a whole, logged and counted, because a truncated line would invalidate
// the others.
func (m *merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Metrics.scrapes.Inc()
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, s := range m.listSources() {
		ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
		text, err := s.read(ctx, r)
		cancel()
		m.logChange(s.name, err)
		if err != nil {
			m.Metrics.failures.WithLabelValues(s.kind).Inc()
			continue
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		if _, err := w.Write(text); err != nil {
			return // the client has disconnected
		}
	}
}

// timeoutOf returns how long each source may take: the scraper's timeout, which Prometheus sends in
// the header X-Prometheus-Scrape-Timeout-Seconds, or scrapeTimeout without a valid one.
func timeoutOf(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get(scrapeTimeoutHeader), 64)
	if err != nil || !(seconds > 0 && seconds < maxScrapeTimeout.Seconds()) {
		return scrapeTimeout
	}
	return time.Duration(seconds * float64(time.Second))
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

// readApplication returns the metrics of the application at url, which must be in the text format
// of the merged output. It fails for another status than 200, the content types OpenMetrics, HTML
// and JSON, and more than m.limit bytes. User-Agent and the scrape timeout of asked are passed on.
func (m *merger) readApplication(ctx context.Context, url string, asked *http.Request) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, name := range []string{"User-Agent", scrapeTimeoutHeader} {
		if v := asked.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	answer, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responded %s", url, answer.Status)
	}
	// Prometheus would reject the whole output. Other content types are accepted, because some
	// applications set a wrong one or none for the text format.
	switch kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind {
	case expfmt.OpenMetricsType, "text/html", "application/json":
		return nil, fmt.Errorf("%s responded with content type %s, which cannot be merged", url, kind)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, m.limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if int64(len(text)) > m.limit {
		return nil, fmt.Errorf("response of %s exceeds %d bytes", url, m.limit)
	}
	return text, nil
}
