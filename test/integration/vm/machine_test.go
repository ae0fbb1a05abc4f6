package vm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

const (
	proxyUID    = 1337
	servicePort = 8080
)

var planeAddress = netip.MustParseAddr("10.66.0.2")

// machine is a virtual machine with an application on port 8080, which answers with the caller's
// identity.
type machine struct {
	t      *testing.T
	node   *netns.Node
	dir    string // its root directory, as far as the agent sees it
	agent  *netns.Process
	ill    atomic.Bool
	caller *http.Client
}

// newMachine starts the application, without an agent.
func newMachine(t *testing.T, network *netns.Network, name, address string) *machine {
	t.Helper()
	node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(address)}})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, node: node, dir: t.TempDir(), caller: node.Client(10 * time.Second)}
	l, err := node.Listen("tcp", fmt.Sprintf(":%d", servicePort))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && m.ill.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s called by %s", name, r.Header.Get("X-Forwarded-Client-Cert"))
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		m.caller.CloseIdleConnections()
		if t.Failed() && m.agent != nil {
			t.Logf("the end of the log of %s:\n%s", name, m.agent.Tail(40))
		}
	})
	return m
}

// join installs the files of pilotctl, captures the machine's traffic, and starts the agent without
// further settings.
func (m *machine) join(p *plane, group string, flags ...string) {
	m.t.Helper()
	m.setHosts(m.install(p, group, flags...))
	m.capture()
	m.start()
}

// install copies the files of pilotctl to their paths, as property of the agent's user, and returns the
// content of the file hosts.
func (m *machine) install(p *plane, group string, flags ...string) (hosts string) {
	m.t.Helper()
	files := m.t.TempDir()
	file := filepath.Join(files, "group.yaml")
	if err := os.WriteFile(file, []byte(group), 0o600); err != nil {
		m.t.Fatal(err)
	}
	args := append([]string{
		"workload", "entry", "configure", "-f", file, "-o", files, "--clusterID", "Kubernetes", "--ingressIP", planeAddress.String(),
		"--internalIP", m.node.Addr().String(),
	}, append(flags, p.which...)...)
	m.run(p.node, netns.Command{Name: "configure-" + m.node.Name(), Path: executable(m.t, "pilotctl"), Args: args})
	for from, to := range map[string]string{
		"cluster.env": "var/lib/istio/envoy/cluster.env", "mesh.yaml": "etc/istio/config/mesh", "root-cert.pem": "etc/certs/root-cert.pem",
		"istio-token": "var/run/secrets/tokens/istio-token",
	} {
		m.lay(filepath.Join(files, from), to)
	}
	if err := os.MkdirAll(filepath.Join(m.dir, "etc/istio/proxy"), 0o755); err != nil { // as the package does
		m.t.Fatal(err)
	}
	if err := filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, proxyUID, proxyUID)
	}); err != nil {
		m.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(files, "hosts"))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// setHosts makes the machine resolve the name in the content of a file hosts.
func (m *machine) setHosts(hosts string) {
	m.t.Helper()
	address, name, _ := strings.Cut(strings.TrimSpace(hosts), " ")
	if err := m.node.SetHosts(map[string]netip.Addr{name: netip.MustParseAddr(address)}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) lay(from, to string) {
	m.t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.dir, to)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) capture() {
	m.t.Helper()
	vars, err := environment.ReadFile(filepath.Join(m.dir, "var/lib/istio/envoy/cluster.env"))
	if err != nil {
		m.t.Fatal(err)
	}
	c := netns.Command{Name: "capture", Path: executable(m.t, "pilot-agent"), Args: []string{"istio-iptables", "-u", fmt.Sprint(proxyUID)}}
	for name, value := range vars {
		c.Env = append(c.Env, name+"="+value)
	}
	m.run(m.node, c)
}

// start starts the agent, as a service of the machine would.
func (m *machine) start() {
	m.t.Helper()
	dir, err := netns.Expose(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.agent, err = m.node.Start(netns.Command{Name: "agent", Path: executable(m.t, "pilot-agent"), Args: []string{"proxy"}, Dir: dir, UID: proxyUID}); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.agent.AwaitOK(ctx, "http://127.0.0.1:15021/healthz/ready"); err != nil {
		m.t.Fatalf("%v\n%s", err, m.agent.Tail(40))
	}
}

// stop ends the agent, and asserts that it ends well.
func (m *machine) stop() {
	m.t.Helper()
	if err := m.agent.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.agent.Wait(ctx); err != nil {
		m.t.Errorf("%v\n%s", err, m.agent.Tail(20))
	}
}

func (m *machine) run(node *netns.Node, c netns.Command) {
	m.t.Helper()
	p, err := node.Start(c)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		m.t.Fatalf("%v\n%s", err, p.Tail(20))
	}
}

// call calls a service, and expects a status and a part of the answer.
func (m *machine) call(address, host string, status int, part string) error {
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	r.Host = host
	answer, err := m.caller.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != status || !bytes.Contains(body, []byte(part)) {
		return fmt.Errorf("%s answers %s %q, want %d %q", host, answer.Status, body, status, part)
	}
	return nil
}

// withEnvoy is an annotation by which a group's machines have an Envoy at a place of their own.
func withEnvoy(t *testing.T) string {
	t.Helper()
	path, err := netns.Expose(envoy.RequireBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{proxy.istio.io/config: '{binaryPath: %s, concurrency: 1, terminationDrainDuration: 1s}'}", path)
}
