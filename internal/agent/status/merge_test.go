package status

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

const envoyMetrics = "# TYPE envoy_cluster_upstream_rq counter\nenvoy_cluster_upstream_rq{response_code=\"200\"} 3\n"

// application starts a server of metrics.
func application(t *testing.T, h http.HandlerFunc) []environment.Application {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return []environment.Application{{Port: uint32(port), Path: "/app/metrics"}}
}

// merge scrapes once, and returns the output after parsing it with Prometheus's parser.
func merge(t *testing.T, o Options, change func(*merger)) (string, map[string]bool) {
	t.Helper()
	m := newMerger(o)
	t.Cleanup(m.client.CloseIdleConnections)
	if change != nil {
		change(m)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	r.Header.Set("User-Agent", "Prometheus/3")
	m.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("status %d, content type %q", w.Code, w.Header().Get("Content-Type"))
	}
	text := w.Body.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Errorf("Prometheus cannot read it: %v\n%s", err, text)
	}
	names := map[string]bool{}
	for name := range families {
		names[name] = true
	}
	return text, names
}

// openMetrics1 is the format that merge accepts.
const openMetrics1 = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// failures returns the counter's values by source.
func failures(t *testing.T, m *Metrics) map[string]int {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range families {
		if f.GetName() != "istio_agent_scrape_failures_total" {
			continue
		}
		for _, s := range f.GetMetric() {
			count[s.GetLabel()[0].GetValue()] = int(s.GetCounter().GetValue())
		}
	}
	return count
}

func TestMerge(t *testing.T) {
	asked := make(chan *http.Request, 1)
	o := options(&fakeEnvoy{metrics: envoyMetrics}, func(o *Options) {
		o.Applications = application(t, func(w http.ResponseWriter, r *http.Request) {
			asked <- r
			// A Go program's own metrics have the same names as the agent's; the last line is not
			// terminated.
			_, _ = io.WriteString(w, "# TYPE go_goroutines gauge\ngo_goroutines 7\n# TYPE app_total counter\napp_total 1")
		})
	})
	o.Metrics.RecordStartup(2 * time.Second)
	text, names := merge(t, o, nil)
	for _, want := range []string{"envoy_cluster_upstream_rq", "app_total", "go_goroutines", "istio_agent_go_goroutines", "istio_agent_process_open_fds", "istio_agent_scrapes_total"} {
		if !names[want] {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if !strings.Contains(text, "istio_agent_startup_duration_seconds 2\n") {
		t.Error("the metric of the start duration is missing")
	}
	if n := strings.Count(text, "\ngo_goroutines "); n != 1 {
		t.Errorf("go_goroutines occurs %d times, want once", n)
	}
	if got := failures(t, o.Metrics); len(got) > 0 {
		t.Errorf("failures %v", got)
	}
	r := <-asked
	if r.URL.Path != "/app/metrics" || r.UserAgent() != "Prometheus/3" || r.Header.Get("Accept") != openMetrics1 {
		t.Errorf("request to the application: URL %s, user agent %s, Accept %s", r.URL, r.UserAgent(), r.Header.Get("Accept"))
	}
}

// TestMergeOmitsFailedSources tests that a failing source is left out as a whole and the others
// remain valid.
func TestMergeOmitsFailedSources(t *testing.T) {
	closed := application(t, nil)
	closed[0].Port = closedPort(t)
	tests := []struct {
		name   string
		envoy  string
		app    []environment.Application
		change func(*merger)
		want   map[string]int
	}{
		{"no application there", envoyMetrics, closed, nil, map[string]int{"application": 1}},
		{"an application with an error", envoyMetrics, application(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "app_total 1", http.StatusInternalServerError)
		}), nil, map[string]int{"application": 1}},
		{"an application that breaks off", envoyMetrics, application(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "app_total{half=")
		}), nil, map[string]int{"application": 1}},
		{"an application with too much", envoyMetrics, application(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "app_total 1\napp_total{half=")
		}), func(m *merger) { m.limit = 20 }, map[string]int{"application": 1}},
		{"an application that answers with a page", envoyMetrics, application(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>please log in</html>") // net/http detects the content type
		}), nil, map[string]int{"application": 1}},
		{"no Envoy", "", nil, nil, map[string]int{"envoy": 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options(&fakeEnvoy{metrics: test.envoy}, func(o *Options) { o.Applications = test.app })
			text, names := merge(t, o, test.change)
			if names["app_total"] || names["envoy_cluster_upstream_rq"] == (test.envoy == "") || !names["istio_agent_scrapes_total"] {
				t.Errorf("merged:\n%s", text)
			}
			if got := failures(t, o.Metrics); len(got) != 1 || got["application"] != test.want["application"] || got["envoy"] != test.want["envoy"] {
				t.Errorf("failures %v, want %v", got, test.want)
			}
		})
	}
}

// TestMergeSeveralTargets tests that all endpoints of an application are merged, and that one that
// fails does not cost the others.
func TestMergeSeveralTargets(t *testing.T) {
	serve := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	failing := application(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	targets := slices.Concat(application(t, serve("first_total 1")), failing, application(t, serve("last_total 1")))
	o := options(&fakeEnvoy{metrics: envoyMetrics}, func(o *Options) { o.Applications = targets })
	text, names := merge(t, o, nil)
	if !names["first_total"] || !names["last_total"] || !names["envoy_cluster_upstream_rq"] {
		t.Errorf("merged:\n%s", text)
	}
	if got := failures(t, o.Metrics); got["application"] != 1 {
		t.Errorf("failures %v, want one of the application", got)
	}
}

// TestQueryIsPassedToEnvoy tests that the query of a scrape selects Envoy's statistics.
func TestQueryIsPassedToEnvoy(t *testing.T) {
	const query = "usedonly&filter=istio_requests_total"
	for _, path := range []string{"/stats/prometheus", EnvoyPath} {
		envoy := &fakeEnvoy{metrics: envoyMetrics}
		o := options(envoy, func(*Options) {})
		New(o).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path+"?"+query, nil))
		if envoy.query != query {
			t.Errorf("%s: Envoy was asked with %q, want %q", path, envoy.query, query)
		}
	}
}

// TestScrapeTimeout tests that the scraper's timeout bounds each source.
func TestScrapeTimeout(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": scrapeTimeout, "30": 30 * time.Second, "0.5": 500 * time.Millisecond, "0": scrapeTimeout, "-1": scrapeTimeout,
		"NaN": scrapeTimeout, "1e300": scrapeTimeout, "soon": scrapeTimeout,
	} {
		r := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
		r.Header.Set(scrapeTimeoutHeader, header)
		if got := timeoutOf(r); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	slow := application(t, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	o := options(&fakeEnvoy{metrics: envoyMetrics}, func(o *Options) { o.Applications = slow })
	r := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
	r.Header.Set(scrapeTimeoutHeader, "0.1")
	New(o).ServeHTTP(httptest.NewRecorder(), r)
	if got := failures(t, o.Metrics); got["application"] != 1 {
		t.Errorf("failures %v, want one of the application", got)
	}
}

// TestMergeWithoutEnvoy tests that a nil Envoy is not a failing source.
func TestMergeWithoutEnvoy(t *testing.T) {
	o := options(&fakeEnvoy{}, func(o *Options) { o.Envoy = nil })
	if _, names := merge(t, o, nil); !names["istio_agent_scrapes_total"] || len(failures(t, o.Metrics)) > 0 {
		t.Errorf("metrics %v, failures %v", names, failures(t, o.Metrics))
	}
}

// closedPort returns an unused port.
func closedPort(t *testing.T) uint32 {
	t.Helper()
	l := listen(t)
	defer l.Close()
	port, err := strconv.ParseUint(l.Addr().String()[strings.LastIndexByte(l.Addr().String(), ':')+1:], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(port)
}

// TestMissingSourceIsLoggedOnce tests that a failing source is not logged at every scrape.
func TestMissingSourceIsLoggedOnce(t *testing.T) {
	var well atomic.Bool
	app := application(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	var log bytes.Buffer
	m := newMerger(options(&fakeEnvoy{metrics: envoyMetrics}, func(o *Options) {
		o.Applications, o.Log = app, slog.New(slog.NewTextHandler(&log, nil))
	}))
	t.Cleanup(m.client.CloseIdleConnections)
	for range 3 {
		m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "418") {
		t.Errorf("three scrapes without the application log\n%s", got)
	}
	log.Reset()
	well.Store(true)
	for range 3 {
		m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "recovered") {
		t.Errorf("three scrapes with it log\n%s", got)
	}
}
