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
	// scrapeTimeout bounds each source of the merged metrics. Prometheus's own default is 10 s for all.
	scrapeTimeout = 5 * time.Second
	// maxScrape bounds what is read of the application's metrics, in bytes.
	maxScrape = 64 << 20
)

// merger makes one answer of the metrics of Envoy, the agent and the application.
type merger struct {
	Options
	client *http.Client
	// limit is maxScrape, or less in tests.
	limit int64

	mu sync.Mutex
	// missing are the sources that the last answer was without.
	missing map[string]bool
}

func newMerger(o Options) *merger {
	// The environment's HTTP_PROXY must not come between the agent and the application beside it.
	client := &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{Proxy: nil, MaxIdleConns: 1, IdleConnTimeout: time.Minute}}
	return &merger{Options: o, client: client, limit: maxScrape, missing: map[string]bool{}}
}

// source is one part of the merged metrics.
type source struct {
	name string
	read func(context.Context, *http.Request) ([]byte, error)
}

// sources are in the order of the answer.
func (m *merger) sources() []source {
	list := []source{{"agent", m.own}}
	if m.Envoy != nil {
		list = append(list, source{"envoy", m.envoy})
	}
	if m.Application != nil {
		list = append(list, source{"application", m.application})
	}
	return list
}

// ServeHTTP answers with all sources. One that fails is left out as a whole and counted: the others are still worth having,
// and half a line would spoil them.
func (m *merger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Metrics.scrapes.Inc()
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, s := range m.sources() {
		ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
		text, err := s.read(ctx, r)
		cancel()
		m.tell(s.name, err)
		if err != nil {
			m.Metrics.failures.WithLabelValues(s.name).Inc()
			continue
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		if _, err := w.Write(text); err != nil {
			return // the client went away
		}
	}
}

// tell logs that a source is missing, and that it is back: once, and not with every scrape.
func (m *merger) tell(source string, err error) {
	m.mu.Lock()
	was := m.missing[source]
	m.missing[source] = err != nil
	m.mu.Unlock()
	switch {
	case err != nil && !was:
		m.Log.Warn("metrics are merged without those of one source", "source", source, "error", err)
	case err == nil && was:
		m.Log.Info("metrics are merged with those of all sources again", "source", source)
	}
}

// own is the agent's part.
func (m *merger) own(context.Context, *http.Request) ([]byte, error) {
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

// envoy is the proxy's part.
func (m *merger) envoy(ctx context.Context, _ *http.Request) ([]byte, error) {
	text, err := m.Envoy.Prometheus(ctx)
	if err != nil {
		return nil, err
	}
	return newLabeler(m.Workload).rewrite(text), nil
}

// serveEnvoy answers with the proxy's part alone: what the proxy serves at its own port.
func (m *merger) serveEnvoy(w http.ResponseWriter, r *http.Request) {
	if m.Envoy == nil {
		http.Error(w, "there is no proxy", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	text, err := m.envoy(ctx, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(text) // the client went away
}

// application is the application's part, asked for in the format that the whole has.
func (m *merger) application(ctx context.Context, asked *http.Request) ([]byte, error) {
	url := "http://" + net.JoinHostPort("localhost", strconv.FormatUint(uint64(m.Application.Port), 10)) + m.Application.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, name := range []string{"User-Agent", "X-Prometheus-Scrape-Timeout-Seconds"} {
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
		return nil, fmt.Errorf("%s answered %s", url, answer.Status)
	}
	// What is no plain text makes Prometheus drop everything. Some plain text says of itself that it is something else, or nothing at all.
	switch kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind {
	case expfmt.OpenMetricsType, "text/html", "application/json":
		return nil, fmt.Errorf("%s answers in %s only, which cannot be merged", url, kind)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, m.limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if int64(len(text)) > m.limit {
		return nil, fmt.Errorf("%s answers with more than %d bytes", url, m.limit)
	}
	return text, nil
}
