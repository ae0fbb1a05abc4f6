package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	networking "istio.io/api/networking/v1alpha3"
)

const patience = 20 * time.Second

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func portOf(t *testing.T, address string) int {
	t.Helper()
	a, err := netip.ParseAddrPort(strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return int(a.Port())
}

// application is an HTTP server that records its requests.
type application struct {
	port int
	last atomic.Pointer[http.Request]
}

func startApplication(t *testing.T, start func(http.Handler) *httptest.Server) *application {
	t.Helper()
	a := &application{}
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	mux.HandleFunc("/ill", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "ill", http.StatusServiceUnavailable) })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ill", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/hops/", func(w http.ResponseWriter, r *http.Request) {
		if left := strings.TrimPrefix(r.URL.Path, "/hops"); left != "/" {
			http.Redirect(w, r, "/hops"+left[:len(left)-1], http.StatusFound)
		}
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	mux.HandleFunc("/drain", func(w http.ResponseWriter, r *http.Request) {
		select { // longer than the timeout of a probe
		case <-time.After(1100 * time.Millisecond):
			_, _ = io.WriteString(w, "drained")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.last.Store(r)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	a.port = portOf(t, s.URL)
	return a
}

func startGRPC(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, h := grpc.NewServer(), health.NewServer()
	h.SetServingStatus("well", healthv1.HealthCheckResponse_SERVING)
	h.SetServingStatus("ill", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(s, h)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return portOf(t, l.Addr().String())
}

// TestHandler tests that the kubelet's probes are forwarded to the application and its responses
// are returned.
func TestHandler(t *testing.T) {
	plain := startApplication(t, httptest.NewServer)
	secure := startApplication(t, httptest.NewTLSServer)
	rpc := startGRPC(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	text := fmt.Sprintf(`{
		"/app-health/ok/readyz": {"httpGet": {"path": "/ok?a=b", "port": %[1]d, "scheme": "HTTP"}, "timeoutSeconds": 10},
		"/app-health/text/readyz": {"httpGet": {"path": "ok", "port": "%[1]d"}},
		"/app-health/ill/livez": {"httpGet": {"path": "/ill", "port": %[1]d}},
		"/app-health/here/livez": {"httpGet": {"path": "/here", "port": %[1]d}},
		"/app-health/there/livez": {"httpGet": {"path": "/there", "port": %[1]d}},
		"/app-health/loop/livez": {"httpGet": {"path": "/loop", "port": %[1]d}},
		"/app-health/hops/livez": {"httpGet": {"path": "/hops/123456789", "port": %[1]d}},
		"/app-health/hopstoo/livez": {"httpGet": {"path": "/hops/1234567890", "port": %[1]d}},
		"/app-health/big/livez": {"httpGet": {"path": "/big", "port": %[1]d}},
		"/app-health/slow/startupz": {"httpGet": {"path": "/slow", "port": %[1]d}, "timeoutSeconds": 1},
		"/app-health/secure/readyz": {"httpGet": {"path": "/ok", "port": %[2]d, "scheme": "HTTPS"}},
		"/app-lifecycle/ok/prestopz": {"httpGet": {"path": "/ok", "port": %[1]d}},
		"/app-lifecycle/drain/prestopz": {"httpGet": {"path": "/drain", "port": %[1]d}},
		"/app-health/tcp/readyz": {"tcpSocket": {"port": %[1]d}},
		"/app-health/shut/readyz": {"tcpSocket": {"port": %[4]d}},
		"/app-health/rpc/readyz": {"grpc": {"port": %[3]d, "service": "well"}},
		"/app-health/rpcill/readyz": {"grpc": {"port": %[3]d, "service": "ill"}},
		"/app-health/rpcnone/readyz": {"grpc": {"port": %[1]d, "service": null}}
	}`, plain.port, secure.port, rpc, portOf(t, closed.Addr().String()))
	probes, err := ParseKubernetes(text)
	if err != nil {
		t.Fatal(err)
	}
	agent := httptest.NewServer(&Handler{Prober: NewProber(loopback), Probes: probes, Log: slog.New(slog.DiscardHandler)})
	defer agent.Close()
	ask := func(path string, header http.Header) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, agent.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		answer, err := agent.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/app-health/ok/readyz": {200, "fine"}, "/app-health/text/readyz": {200, "fine"}, "/app-health/ill/livez": {503, "ill\n"},
		"/app-health/here/livez": {503, "ill\n"}, "/app-health/there/livez": {200, ""}, "/app-health/big/livez": {200, strings.Repeat("\x00", maxBody)},
		"/app-health/hops/livez":    {200, ""},
		"/app-health/secure/readyz": {200, "fine"}, "/app-lifecycle/ok/prestopz": {200, "fine"},
		"/app-lifecycle/drain/prestopz": {200, "drained"}, // a hook has no timeout
		"/app-health/tcp/readyz":        {200, ""}, "/app-health/rpc/readyz": {200, ""}, "/app-health/rpcill/readyz": {500, "application reports gRPC health NOT_SERVING\n"},
		"/app-health/other/readyz": {400, "no probe has this path\n"},
	} {
		if status, body := ask(path, nil); status != want.status || body != want.body {
			t.Errorf("%s: %d %.100q, want %d %.100q", path, status, body, want.status, want.body)
		}
	}
	for _, path := range []string{
		"/app-health/slow/startupz", "/app-health/shut/readyz", "/app-health/rpcnone/readyz", "/app-health/loop/livez", "/app-health/hopstoo/livez",
	} {
		begin := time.Now()
		if status, body := ask(path, nil); status != 500 || body == "" || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	ask("/app-health/ok/readyz", http.Header{"X-Own": {"1"}, "User-Agent": {"kube-probe/1.35"}})
	r := plain.last.Load()
	if got, want := r.Host, fmt.Sprintf("127.0.0.1:%d", plain.port); got != want {
		t.Errorf("requested host = %s, want %s", got, want)
	}
	if r.URL.RawQuery != "a=b" || r.Header.Get("X-Own") != "1" || r.UserAgent() != "kube-probe/1.35" {
		t.Errorf("asked %v, %v", r.URL, r.Header)
	}
	if !strings.HasPrefix(r.RemoteAddr, "127.0.0.6:") {
		t.Errorf("asked from %s, which capture does not let pass", r.RemoteAddr)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[`:                           "want a JSON object of probes",
		`{"/app-health/a/readyz":{}}`: "want exactly one of httpGet, tcpSocket and grpc",
		`{"/app-health/a/readyz":{"httpGet":{"port":"http"}}}`:                `"http" is not a port`,
		`{"/app-health/a/readyz":{"grpc":{"port":70000}}}`:                    `"70000" is not a port`,
		`{"/app-health/../readyz":{"tcpSocket":{"port":1}}}`:                  "",
		`{"/debug":{"tcpSocket":{"port":1}}}`:                                 "invalid path: want a path such as",
		`{"/app-health/a/readyz":{"tcpSocket":{"port":1},"grpc":{"port":1}}}`: "want exactly one of",
	} {
		if _, err := ParseKubernetes(text); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
}

// TestMonitor tests that probes are sent at the configured times, and that each change of health is
// reported once, after the configured number of results.
func TestMonitor(t *testing.T) {
	timed, err := ParseReadinessProbe(&networking.ReadinessProbe{
		InitialDelaySeconds: 3, PeriodSeconds: 4, TimeoutSeconds: 5, HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: 1}},
	})
	if err != nil || timed.Delay != 3*time.Second || timed.Period != 4*time.Second || timed.Probe.Timeout != 5*time.Second {
		t.Errorf("initialDelaySeconds, periodSeconds, timeoutSeconds: %+v, %v", timed, err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, times := time.Now(), []time.Duration(nil)
		timed.OnChange, timed.Log = func(string) {}, slog.New(slog.DiscardHandler)
		timed.CheckProxy = func(context.Context) error {
			if times = append(times, time.Since(start)); len(times) == 3 {
				cancel()
			}
			return errors.New("not ready")
		}
		if err := timed.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{3 * time.Second, 7 * time.Second, 11 * time.Second}; !cmp.Equal(times, want) {
			t.Errorf("probes after %v, want %v", times, want)
		}
	})
	m, err := ParseReadinessProbe(&networking.ReadinessProbe{
		SuccessThreshold: 2, FailureThreshold: 3, HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{Command: []string{"true"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Period != 10*time.Second || m.Probe.Timeout != time.Second {
		t.Errorf("asked every %v for %v", m.Period, m.Probe.Timeout)
	}
	m.Period, m.Prober, m.Log = time.Millisecond, NewProber(loopback), slog.New(slog.DiscardHandler)
	answers := make(chan error)
	told := make(chan string, 16)
	m.OnChange = func(problem string) { told <- problem }
	m.CheckProxy = func(ctx context.Context) error {
		select {
		case err := <-answers:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	ill := errors.New("ill")
	// Neither one success nor two failures are enough: with thresholds of 1 there would be more
	// reports.
	for _, answer := range []error{nil, ill, ill, ill, nil, nil, ill, ill, nil, nil, ill, ill, ill, ill, nil, nil} {
		answers <- answer
	}
	answers <- nil // the last change has been reported
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(told)
	var list []string
	for s := range told {
		list = append(list, s)
	}
	if want := []string{"the proxy is not ready: ill", "", "the proxy is not ready: ill", ""}; !cmp.Equal(list, want) {
		t.Errorf("reports = %q, want %q", list, want)
	}
}

// TestReadiness tests the kinds of WorkloadGroup probes.
func TestReadiness(t *testing.T) {
	app := startApplication(t, httptest.NewServer)
	secure := startApplication(t, httptest.NewTLSServer)
	rpc := startGRPC(t)
	withScheme := func(scheme string) *networking.ReadinessProbe {
		return &networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{
			Path: "ok", Port: uint32(secure.port), Scheme: scheme,
		}}}
	}
	httpGet := func(path string) *networking.ReadinessProbe {
		return &networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{
			Path: path, Port: uint32(app.port), HttpHeaders: []*networking.HTTPHeader{{Name: "Host", Value: "a.example"}, {Name: "X", Value: "1"}},
		}}}
	}
	for name, test := range map[string]struct {
		probe *networking.ReadinessProbe
		want  string // of the error, "" for healthy, or "!" and that of the configuration
	}{
		"http":      {httpGet("ok"), ""},
		"http, ill": {httpGet("/ill"), "503"},
		"https":     {withScheme("HTTPS"), ""},
		"not https": {withScheme("HTTP"), "400"},
		"tcp":       {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Host: "127.0.0.1", Port: uint32(app.port)}}}, ""},
		"http, another address": {
			&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_HttpGet{HttpGet: &networking.HTTPHealthCheckConfig{
				Host: "127.0.0.2", Path: "ok", Port: uint32(app.port),
			}}}, fmt.Sprintf("dial tcp 127.0.0.2:%d: ", app.port),
		},
		"tcp, another address": {
			&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{
				Host: "127.0.0.2", Port: uint32(app.port),
			}}}, fmt.Sprintf("dial tcp 127.0.0.2:%d: ", app.port),
		},
		"grpc":         {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_Grpc{Grpc: &networking.GrpcHealthCheckConfig{Service: "well", Port: uint32(rpc)}}}, ""},
		"grpc, ill":    {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_Grpc{Grpc: &networking.GrpcHealthCheckConfig{Service: "ill", Port: uint32(rpc)}}}, "NOT_SERVING"},
		"exec":         {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{Command: []string{"sh", "-c", "echo no room; exit 3"}}}}, "exit status 3: no room"},
		"exec nothing": {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_Exec{Exec: &networking.ExecHealthCheckConfig{}}}, "!exec.command"},
		"nothing":      {&networking.ReadinessProbe{}, "!want one of"},
		"no port":      {&networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{}}}, "!port: 0"},
	} {
		m, err := ParseReadinessProbe(test.probe)
		if want, bad := strings.CutPrefix(test.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want …%s…", name, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.Probe.Timeout = patience
		err = NewProber(loopback).Check(t.Context(), m.Probe)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want …%s…", name, err, test.want)
		}
	}
	if r := app.last.Load(); r.Host != "a.example" || r.Header.Get("X") != "1" {
		t.Errorf("asked %s, %v", r.Host, r.Header)
	}
}
