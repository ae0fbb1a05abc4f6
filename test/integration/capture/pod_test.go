package capture

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

const (
	httpPort = 8080
	tcpPort  = 9090
)

// pod is a workload whose application answers with the caller's address.
type pod struct {
	t     *testing.T
	node  *netns.Node
	agent string
}

// newPod starts the application. Over HTTP it also reports whether a proxy forwarded the request,
// which shows in a request id.
func newPod(t *testing.T, b binaries, network *netns.Network, name string, addresses []netip.Addr) *pod {
	t.Helper()
	node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: addresses, Hosts: map[string]netip.Addr{"istiod": planeAddress}})
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{t: t, node: node, agent: b.agent}
	for _, family := range []string{"tcp4", "tcp6"} {
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			by := "nobody"
			if r.Header.Get("X-Request-Id") != "" {
				by = "a proxy"
			}
			fmt.Fprintf(w, "%s was called by %s through %s", name, host(r.RemoteAddr), by)
		})}
		l := p.listen(family, httpPort)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		go answer(p.listen(family, tcpPort), name)
	}
	return p
}

func (p *pod) listen(family string, port int) net.Listener {
	p.t.Helper()
	l, err := p.node.Listen(family, fmt.Sprintf(":%d", port))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Close() })
	return l
}

func answer(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "%s was called by %s", name, host(conn.RemoteAddr().String()))
		conn.Close()
	}
}

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return h
}

// capture applies the rules, as the init container does.
func (p *pod) capture(flags ...string) {
	p.t.Helper()
	args := append([]string{
		"istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15021,15020", "--dual-stack",
	}, flags...)
	process, err := p.node.Start(netns.Command{Name: "capture", Path: p.agent, Args: args})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := process.Wait(ctx); err != nil {
		p.t.Fatalf("%v\n%s", err, process.Tail(20))
	}
}

// identity returns the arguments of setpriv(1) that start an agent with its user and capabilities.
type identity []string

// startAgent starts the agent with its Envoy, and waits until it is ready.
func (p *pod) startAgent(as identity, mode string) {
	p.t.Helper()
	binary, err := netns.Expose(envoy.RequireBinary(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	dir := p.t.TempDir()
	config := filepath.Join(dir, "etc/istio/config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		p.t.Fatal(err)
	}
	text := fmt.Sprintf("defaultConfig: {discoveryAddress: 'istiod:15010', controlPlaneAuthPolicy: NONE, binaryPath: %s, interceptionMode: %s, concurrency: 1, terminationDrainDuration: 1s}\n", binary, mode)
	if err := os.WriteFile(filepath.Join(config, "mesh"), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := chown(dir, 1337); err != nil {
		p.t.Fatal(err)
	}
	if dir, err = netns.Expose(dir); err != nil {
		p.t.Fatal(err)
	}
	process, err := p.node.Start(netns.Command{
		Name: "agent", Path: "setpriv", Dir: dir, Args: append(append([]string{}, as...), p.agent, "proxy", "sidecar"),
		Env: []string{"POD_NAME=" + p.node.Name(), "POD_NAMESPACE=shop", "INSTANCE_IP=" + p.node.Addr().String(), "ISTIO_DUAL_STACK=true"},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the end of the log of %s:\n%s", p.node.Name(), process.Tail(40))
		}
	})
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := process.AwaitOK(ctx, "http://127.0.0.1:15021/healthz/ready"); err != nil {
		p.t.Fatalf("%v\n%s", err, process.Tail(40))
	}
}

func chown(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}

// get sends an HTTP request, and returns the answer.
func (p *pod) get(address netip.Addr) (string, error) {
	client := p.node.Client(5 * time.Second)
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://" + netip.AddrPortFrom(address, httpPort).String())
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// connect opens a TCP connection and returns the server's first text without sending anything.
func (p *pod) connect(address netip.Addr) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	conn, err := p.node.Dial(ctx, "tcp", netip.AddrPortFrom(address, tcpPort).String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
