package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	envoykit "github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

// publicDir returns a temporary directory that every user can reach.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	return dir
}

// publicCopy returns the path of a copy of a program that every user can run.
func publicCopy(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(publicDir(t), filepath.Base(program))
	if err := os.WriteFile(path, text, 0o755); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	return path
}

// TestRootWithDNSPort tests that an agent of root that serves DNS at port 53 runs Envoy as the
// proxy's user, which can use what the agent writes: bootstrap, sockets, modules, and the directory
// of the base ID.
func TestRootWithDNSPort(t *testing.T) {
	netns.RequireUID(t, 1337)
	app, inbound := newService(t), serving.FreePort(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(wasm.AddsHeader("x-wasm", "1"))
	}))
	t.Cleanup(server.Close)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	one := plugin{name: "plugin", url: server.URL}
	in := listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", inbound, "in", "app")
	plane := newControlPlane(t, l, cluster("app", "127.0.0.1", app.port), withPlugins(t, in, one), one.extension(t))
	plane.setNames(mesh.NameTable{})
	a := startAgent(t, settings{
		binary: publicCopy(t, envoykit.RequireBinary(t)), dir: publicDir(t),
		config: map[string]any{"discoveryAddress": l.Addr().String(), "terminationDrainDuration": "0s"},
		env:    []string{"ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR=127.0.0.1:53", "MESHPILOT_HOT_RESTART=true"},
	})
	a.awaitReady(t)
	serving.Eventually(t, patience, "the plugin", func() error {
		got := get(inbound, "/")
		if got.header.Get("x-wasm") != "1" {
			return fmt.Errorf("answer %d %q", got.status, got.body)
		}
		return nil
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.envoyPID(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`Uid:(\s+1337){4}\n`, `Gid:(\s+1337){4}\n`, `Groups:\s*\n`} {
		if !regexp.MustCompile(want).Match(status) {
			t.Errorf("status of Envoy does not match %s:\n%s", want, status)
		}
	}
	a.signal(t, syscall.SIGHUP)
	a.awaitLog(t, "hot restart: new envoy has taken over")
	a.signal(t, syscall.SIGTERM)
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}

// TestDNSPortWithoutRoot tests that an agent that may not open port 53 serves DNS at the default
// address instead.
func TestDNSPortWithoutRoot(t *testing.T) {
	netns.RequireUID(t, 1337)
	proxy := &envoy.User{UID: 1337, GID: 1337}
	dir := publicDir(t)
	if err := proxy.Own(dir); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	newControlPlane(t, l).setNames(mesh.NameTable{"web.ns.svc.cluster.local": {IPs: []string{"10.96.0.1"}, Registry: mesh.Kubernetes}})
	a := startAgent(t, settings{
		user: proxy, binary: publicCopy(t, envoykit.RequireBinary(t)), dir: dir,
		config: map[string]any{"discoveryAddress": l.Addr().String()},
		env:    []string{"ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR=127.0.0.1:53"},
	})
	a.awaitLog(t, "error\tdns\tcannot open the address of DNS_PROXY_ADDR, using the default\tdefault=localhost:15053")
	a.awaitReady(t)
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion("web.ns.svc.cluster.local.", dns.TypeA), "127.0.0.1:15053")
	if err != nil || len(reply.Answer) != 1 {
		t.Errorf("answer %v, %v", reply, err)
	}
}
