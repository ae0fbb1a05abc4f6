package status

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options returns the options of a port with a fake Envoy; change may be nil.
func options(envoy *fakeEnvoy, change func(*Options)) Options {
	log := slog.New(slog.DiscardHandler)
	o := Options{Envoy: envoy, Metrics: NewMetrics(), Readiness: NewReadiness(envoy, noParts, log), Log: log, Quit: func() {}, Drain: func() {}}
	if change != nil {
		change(&o)
	}
	return o
}

func call(h http.Handler, method, path, peer string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if peer != "" {
		r.RemoteAddr = peer
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPaths(t *testing.T) {
	envoy := &fakeEnvoy{metrics: envoyMetrics}
	h := New(options(envoy, nil))
	tests := []struct {
		method, path string
		want         int
		body         string
	}{
		{"GET", "/healthz/ready", 503, "envoy does not respond: connection refused"},
		{"GET", "/metrics", 200, "istio_agent_process_open_fds"},
		{"GET", "/metrics", 200, "envoy_cluster_upstream_rq{"},
		{"POST", "/metrics", 405, ""},
		{"GET", "/stats/prometheus", 200, "istio_agent_process_open_fds"},
		{"GET", "/app-health/reviews/readyz", 404, ""},
		{"GET", "/debug/ndsz", 403, "only requests from localhost"},
		{"GET", "/", 404, ""},
		{"GET", "/config_dump", 404, ""},
	}
	for _, test := range tests {
		w := call(h, test.method, test.path, "")
		if w.Code != test.want || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, w.Code, w.Body, test.want, test.body)
		}
	}
	envoy.set("LIVE", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1, workersStarted: 1})
	if w := call(h, "GET", "/healthz/ready", ""); w.Code != 200 {
		t.Errorf("ready: %d %s", w.Code, w.Body)
	}
}

// TestMetricsForLocalhost tests METRICS_LOCALHOST_ACCESS_ONLY; readiness is still served to the
// kubelet.
func TestMetricsForLocalhost(t *testing.T) {
	envoy := &fakeEnvoy{}
	envoy.set("LIVE", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1, workersStarted: 1})
	h := New(options(envoy, func(o *Options) { o.MetricsLocalhostOnly = true }))
	for _, path := range []string{"/stats/prometheus", EnvoyPath, "/metrics"} {
		if w := call(h, "GET", path, "10.0.0.9:4000"); w.Code != 403 {
			t.Errorf("GET %s from elsewhere: %d, want 403", path, w.Code)
		}
		if w := call(h, "GET", path, "[::1]:4000"); w.Code == 403 {
			t.Errorf("GET %s from here: %d %s", path, w.Code, w.Body)
		}
	}
	if w := call(h, "GET", "/healthz/ready", "10.0.0.9:4000"); w.Code != 200 {
		t.Errorf("ready: %d %s, want 200", w.Code, w.Body)
	}
}

// TestProfiles tests that profiles are served to this host only, and not without the option.
func TestProfiles(t *testing.T) {
	on := New(options(&fakeEnvoy{}, func(o *Options) { o.Profiling = true }))
	off := New(options(&fakeEnvoy{}, nil))
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		for _, c := range []struct {
			h    http.Handler
			peer string
			want int
		}{{on, "127.0.0.1:4000", 200}, {on, "[::1]:4000", 200}, {on, "10.0.0.9:4000", 403}, {off, "127.0.0.1:4000", 404}} {
			if w := call(c.h, "GET", path, c.peer); w.Code != c.want {
				t.Errorf("GET %s from %s: %d, want %d", path, c.peer, w.Code, c.want)
			}
		}
	}
}

// TestEndingIsForLocalhost tests that other hosts cannot end the proxy.
func TestEndingIsForLocalhost(t *testing.T) {
	var quits, drains int
	h := New(options(&fakeEnvoy{}, func(o *Options) { o.Quit, o.Drain = func() { quits++ }, func() { drains++ } }))
	tests := []struct {
		method, peer string
		want         int
	}{
		{"POST", "10.0.0.9:4000", 403},
		{"POST", "[fd00::9]:4000", 403},
		{"POST", "", 403}, // of httptest, 192.0.2.1
		{"GET", "127.0.0.1:4000", 405},
		{"POST", "127.0.0.1:4000", 200},
		{"POST", "[::1]:4000", 200},
		{"POST", "[::ffff:127.0.0.1]:4000", 200},
	}
	for _, test := range tests {
		for _, path := range []string{"/quitquitquit", "/drain"} {
			if w := call(h, test.method, path, test.peer); w.Code != test.want {
				t.Errorf("%s %s from %s: %d, want %d", test.method, path, test.peer, w.Code, test.want)
			}
		}
	}
	if quits != 3 || drains != 3 {
		t.Errorf("%d quits, %d drains, want 3 each", quits, drains)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestServeUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := listen(t)
	served := make(chan error, 1)
	started, release := make(chan struct{}), make(chan struct{})
	go func() {
		served <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(started)
			<-release
			_, _ = io.WriteString(w, "done")
		}))
	}()
	got := make(chan string, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			got <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		got <- string(body)
	}()
	<-started
	cancel() // active requests are completed
	close(release)
	if body := <-got; body != "done" {
		t.Errorf("the request under way got %q", body)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

func TestServeReturnsListenErrors(t *testing.T) {
	l := listen(t)
	l.Close()
	if err := Serve(t.Context(), l, http.NotFoundHandler()); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "status port: ") {
		t.Errorf("error %v", err)
	}
}
