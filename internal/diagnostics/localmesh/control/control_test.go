package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(leakChecked{m})) }

// leakChecked are tests after which no goroutine may be left.
type leakChecked struct{ m *testing.M }

// Run runs the tests and ends the process.
func (l leakChecked) Run() int {
	goleak.VerifyTestMain(l.m)
	return 0
}

// serveNode makes a network with the node "client" that a socket controls, and returns the socket's
// directory and the node.
func serveNode(t *testing.T) (dir string, node *netns.Node) {
	t.Helper()
	netns.Require(t)
	dir = t.TempDir()
	network, err := netns.New(netns.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	node, err = network.AddNode(netns.NodeOptions{Name: "client", Addrs: []netip.Addr{netip.MustParseAddr("10.66.0.3")}})
	if err != nil {
		t.Fatal(err)
	}
	inNode := func(do func(context.Context, *Call, *netns.Node) (Result, error)) Handler {
		return func(ctx context.Context, c *Call) (Result, error) {
			n, err := FindNode(network, c.Node)
			if err != nil {
				return Result{}, err
			}
			return do(ctx, c, n)
		}
	}
	s, err := Listen(filepath.Join(dir, SocketName), map[string]Handler{
		"exec": inNode(func(ctx context.Context, c *Call, n *netns.Node) (Result, error) {
			status, err := Exec(ctx, c, n)
			return Result{Status: status}, err
		}),
		"forward": inNode(func(ctx context.Context, c *Call, n *netns.Node) (Result, error) {
			return Result{}, Forward(ctx, c, n, c.Args[0])
		}),
		"echo": func(_ context.Context, c *Call) (Result, error) {
			c.Progress("working")
			return Result{Value: c.Spec}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), network.Close()); err != nil {
			t.Error(err)
		}
	})
	return dir, node
}

// startExec sends a command with a pipe for its output, and returns the reading side and the result.
func startExec(t *testing.T, ctx context.Context, c Client, r Request) (*os.File, <-chan error) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	if err := out.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r.Action, r.Dir = "exec", "/"
	done := make(chan error, 1)
	go func() {
		defer in.Close()
		answer, err := c.Do(ctx, r, os.Stdin, in, in)
		if err == nil && answer.Status != 0 {
			err = fmt.Errorf("status %d", answer.Status)
		}
		done <- err
	}()
	return out, done
}

func TestExecRunsInTheNode(t *testing.T) {
	dir, _ := serveNode(t)
	script := []string{"sh", "-c", "uname -n; pwd; echo $WHO; exit 5"}
	out, done := startExec(t, t.Context(), Client{Dir: dir}, Request{Node: "client", Args: script, Env: []string{"WHO=me"}})
	text, _ := io.ReadAll(out)
	if err := <-done; fmt.Sprint(err) != "status 5" || string(text) != "client\n/\nme\n" {
		t.Errorf("output %q, %v", text, err)
	}
	for want, r := range map[string]Request{
		`no workload "nobody"; there are ["client"]`: {Node: "nobody", Args: []string{"true"}},
		"executable file":     {Node: "client", Args: []string{"no-such-program"}},
		"there is no command": {Node: "client"},
	} {
		_, done := startExec(t, t.Context(), Client{Dir: dir}, r)
		if err := <-done; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("exec %+v: %v, want an error with %q", r, err, want)
		}
	}
}

// TestLargeEnvironment sends a request that does not fit in one message.
func TestLargeEnvironment(t *testing.T) {
	dir, _ := serveNode(t)
	var env []string
	for i := range 30 {
		env = append(env, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 10_000)))
	}
	out, done := startExec(t, t.Context(), Client{Dir: dir},
		Request{Node: "client", Args: []string{"sh", "-c", "echo ${#V0} ${#V29}"}, Env: env})
	text, _ := io.ReadAll(out)
	if err := <-done; err != nil || string(text) != "10000 10000\n" {
		t.Errorf("output %q, %v", text, err)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	dir, _ := serveNode(t)
	signals := make(chan os.Signal)
	out, done := startExec(t, t.Context(), Client{Dir: dir, Signals: signals},
		Request{Node: "client", Args: []string{"sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"}})
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	if err := <-done; fmt.Sprint(err) != "status 7" {
		t.Errorf("after SIGTERM: %v, want status 7", err)
	}
}

func TestExecEndsWithItsClient(t *testing.T) {
	dir, _ := serveNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, done := startExec(t, ctx, Client{Dir: dir},
		Request{Node: "client", Args: []string{"sh", "-c", "echo started; exec sleep 1000"}})
	if _, err := io.ReadFull(out, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled command: %v", err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after its client disconnected, reading the output returns %v, want the end", err)
	}
}

// TestForward reads a page of a server that listens in a node only, through a listener outside of its
// network.
func TestForward(t *testing.T) {
	dir, node := serveNode(t)
	inside, err := node.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	})}
	go func() { _ = server.Serve(inside) }()
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := Client{Dir: dir}.Do(ctx, Request{Action: "forward", Node: "client", Args: []string{"127.0.0.1:8080"}}, file)
		done <- err
	}()
	// The kernel queues the connection until the server accepts it.
	resp, err := http.Get("http://" + l.Addr().String() + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "/ui/" {
		t.Errorf("the page is %q, %v", text, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled forwarder: %v", err)
	}
}

func TestProgressAndValue(t *testing.T) {
	dir, _ := serveNode(t)
	var lines []string
	c := Client{Dir: dir, Progress: func(line string) { lines = append(lines, line) }}
	answer, err := c.Do(t.Context(), Request{Action: "echo", Spec: json.RawMessage(`{"a":1}`)})
	if err != nil || string(answer.Value) != `{"a":1}` || strings.Join(lines, ",") != "working" {
		t.Errorf("answer %s, progress %q, %v", answer.Value, lines, err)
	}
	if _, err := c.Do(t.Context(), Request{Action: "dance"}); err == nil || !strings.Contains(err.Error(), `action "dance"`) {
		t.Errorf("an unknown action: %v", err)
	}
}

func TestNoMesh(t *testing.T) {
	c := Client{Dir: t.TempDir()}
	if _, err := c.Do(t.Context(), Request{Action: "exec"}); !errors.Is(err, ErrNotRunning) || c.IsRunning() {
		t.Errorf("without a mesh: %v", err)
	}
}

// TestEndedMesh sends requests to a mesh that closes each connection without an answer. Depending
// on the time of that, the client fails to send or to receive.
func TestEndedMesh(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	c := Client{Dir: dir}
	for range 200 {
		if _, err := c.Do(t.Context(), Request{Action: "echo"}); !errors.Is(err, ErrEnded) {
			t.Fatalf("a request: %v, want ErrEnded", err)
		}
		if err := c.Stop(t.Context(), Request{Action: "stop"}); err != nil {
			t.Fatalf("the request that ends the mesh: %v", err)
		}
	}
	l.Close()
	<-closed
}
