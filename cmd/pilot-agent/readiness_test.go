package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestReadyWithTheFirstConfiguration tests that the proxy is not ready without a control plane or
// with rejected configuration, and ready with an empty CDS response and one listener.
func TestReadyWithTheFirstConfiguration(t *testing.T) {
	t.Parallel()
	controlPort := serving.FreePort(t)
	a := startAgent(t, settings{config: map[string]any{"discoveryAddress": fmt.Sprintf("127.0.0.1:%d", controlPort)}})
	unready := func(reason string) {
		t.Helper()
		serving.Eventually(
			t,
			patience,
			reason,
			func() error { return want(get(a.status, "/healthz/ready"), 503, reason) },
		)
	}
	unready(
		"config not received from the control plane: cds updates: 0 successful, 0 rejected; lds updates: 0 successful, 0 rejected",
	)
	if got := get(a.ready, "/healthz/ready"); got.err == nil {
		t.Errorf("Envoy's readiness port answers %d before there is configuration", got.status)
	}

	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", controlPort))
	if err != nil {
		t.Fatal(err)
	}
	control := newControlPlane(t, l, badCluster(), badListener())
	unready("cds updates: 0 successful, 1 rejected; lds updates: 0 successful, 1 rejected")
	control.awaitRejects(2)

	control.set(listener(t, 0, "127.0.0.1", serving.FreePort(t), "x", "nowhere"))
	a.awaitReady(t)
	check(t, want(get(a.ready, "/healthz/ready"), 200, ""))

	// The first configuration stays in use.
	control.set(badCluster())
	control.awaitRejects(3)
	check(t, want(get(a.status, "/healthz/ready"), 200, ""))
	if n := strings.Count(a.text(), "\tthe proxy is ready\n"); n != 1 {
		t.Errorf("the log has %d lines that the proxy is ready, want one", n)
	}
	if got := control.connected(); len(got) != 1 || got[0] != "sidecar~127.0.0.1~a.ns~ns.svc.cluster.local" {
		t.Errorf("nodes %q, want one: only the first message of the stream has it", got)
	}
}

// TestReadyWhileEnvoyIsBusy stops an Envoy that was ready, as if its main thread processed a large
// update: the proxy stays ready, until it drains.
func TestReadyWhileEnvoyIsBusy(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{config: map[string]any{"discoveryAddress": localControlPlane(t)}})
	a.awaitReady(t)
	pid := a.envoyPID(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	check(t, want(get(a.status, "/healthz/ready"), 200, ""))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	check(t, want(call(http.MethodPost, a.status, "/drain", nil), 200, "OK"))
	serving.Eventually(t, patience, "draining", func() error {
		return want(get(a.status, "/healthz/ready"), 503, "draining")
	})
}

// TestStaticListeners tests that readiness and metrics are served for kubelet and Prometheus, and
// the admin interface is not.
func TestStaticListeners(t *testing.T) {
	t.Parallel()
	address := localControlPlane(t)
	app := newService(t)
	a := startAgent(t, settings{
		config: map[string]any{"discoveryAddress": address},
		env: []string{
			fmt.Sprintf(`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","port":"%d","path":"/metrics"}`, app.port),
		},
	})
	a.awaitReady(t)
	tests := []struct {
		method string
		port   int
		path   string
		status int
		body   string
	}{
		{"GET", a.ready, "/healthz/ready", 200, ""},
		{"GET", a.ready, "/stats/prometheus", 404, ""},
		{"POST", a.ready, "/quitquitquit", 404, ""},
		{"GET", a.ready, "/healthz/ready/../../quitquitquit", 404, ""},
		{"GET", a.metrics, "/stats/prometheus", 200, "envoy_server_live"},
		{"GET", a.metrics, "/stats/prometheus?usedonly", 200, "envoy_server_live"},
		{"GET", a.metrics, "/config_dump", 404, ""},
		{"POST", a.metrics, "/quitquitquit", 404, ""},
		{"GET", a.metrics, "/stats/prometheus/../../config_dump", 404, ""},
		{"GET", a.metrics, "/stats/prometheus%2f..%2f..%2fconfig_dump", 404, ""},
		// The agent's own port adds the application's and its own metrics.
		{"GET", a.status, "/stats/prometheus", 200, "app_total 1\n"},
		{"GET", a.status, "/stats/prometheus", 200, "envoy_server_live"},
		{"GET", a.status, "/stats/prometheus", 200, "istio_agent_startup_duration_seconds"},
		{"GET", a.status, "/metrics", 200, "app_total 1\n"},
	}
	for _, test := range tests {
		if err := want(call(test.method, test.port, test.path, nil), test.status, test.body); err != nil {
			got := err.Error()
			t.Errorf("%s %d%s: %s", test.method, test.port, test.path, got[:min(len(got), 300)])
		}
	}
	for _, algorithm := range []string{"gzip", "br", "zstd"} {
		got := call(http.MethodGet, a.metrics, "/stats/prometheus", http.Header{"Accept-Encoding": {algorithm}})
		if got.status != 200 || got.header.Get("Content-Encoding") != algorithm {
			t.Errorf("accepting %s: status %d, encoding %q", algorithm, got.status, got.header.Get("Content-Encoding"))
		}
	}
}

// TestBothIPVersions tests that an agent on an IPv6-first host uses both IP versions.
func TestBothIPVersions(t *testing.T) {
	t.Parallel()
	for _, addresses := range []string{"::1,127.0.0.1", "127.0.0.1,::1", "::1"} {
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		newControlPlane(t, l)
		a := startAgent(t, settings{
			config: map[string]any{"discoveryAddress": l.Addr().String()}, env: []string{"INSTANCE_IPS=" + addresses},
		})
		a.awaitReady(t)
		for host := range strings.SplitSeq(addresses, ",") {
			for port, path := range map[int]string{a.ready: "/healthz/ready", a.metrics: "/stats/prometheus"} {
				check(t, want(callHost(http.MethodGet, host, port, path, nil), 200, ""))
			}
		}
	}
}
