package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// serveAPI serves the requests that the API server forwards for kubectl: exec, port-forward, logs.
// It authenticates no caller, so it must listen in the cluster's own network only.
func (k *kubelet) serveAPI(ctx context.Context) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.servePortForward)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: streamPatience,
		// SPDY is an upgrade of HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		BaseContext:  func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.ServeTLS(k.Listener, k.CertificateFile, k.PrivateKeyFile)
	if !errors.Is(err, http.ErrServerClosed) {
		k.Log.Error("the kubelet's API is not served", "error", err)
	}
}

const (
	streamPatience = 30 * time.Second
	streamIdle     = 4 * time.Hour
	dialPatience   = 10 * time.Second
)

// requestedPod returns the Pod of a request. If it does not exist, requestedPod answers with an
// error.
func (k *kubelet) requestedPod(w http.ResponseWriter, req *http.Request) *pod {
	namespace, name := req.PathValue("namespace"), req.PathValue("pod")
	p := k.podBy(func(p *pod) bool { return p.namespace == namespace && p.name == name })
	if p == nil {
		http.Error(w, fmt.Sprintf("pod %s/%s does not run here", namespace, name), http.StatusNotFound)
	}
	return p
}

func (k *kubelet) serveExec(w http.ResponseWriter, req *http.Request) {
	p := k.requestedPod(w, req)
	if p == nil {
		return
	}
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(
		w,
		req,
		p,
		p.name,
		string(p.uid),
		req.PathValue("container"),
		req.URL.Query()["command"],
		options,
		streamIdle,
		streamPatience,
		remotecommand.SupportedStreamingProtocols,
	)
}

var _ remotecommand.Executor = (*pod)(nil)

// ExecInContainer implements [remotecommand.Executor]. There are no terminals: a client that
// requests one has pipes.
func (p *pod) ExecInContainer(
	ctx context.Context,
	_, _, name string,
	args []string,
	in io.Reader,
	out, errOut io.WriteCloser,
	_ bool,
	_ <-chan remotecommand.TerminalSize,
	_ time.Duration,
) error {
	run, err := p.runningProcess(name)
	if err != nil {
		return err
	}
	cmd := run.commandInside(ctx, args)
	cmd.Stdout, cmd.Stderr = out, out
	if errOut != nil {
		cmd.Stderr = errOut
	}
	if in != nil { // by a pipe of ours: the command may end before the client closes its input
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(stdin, in) // either side may end it
			stdin.Close()
		}()
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code, _ := exitCodeOf(exit.ProcessState)
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// runningProcess returns the run of a container.
func (p *pod) runningProcess(name string) (*process, error) {
	c := p.containerNamed(name)
	if c == nil {
		return nil, fmt.Errorf("no container %q", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return nil, fmt.Errorf("container %s does not run", name)
	}
	return c.run, nil
}

func (k *kubelet) servePortForward(w http.ResponseWriter, req *http.Request) {
	p := k.requestedPod(w, req)
	if p == nil {
		return
	}
	options, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(
		w,
		req,
		p,
		p.name,
		string(p.uid),
		options,
		streamIdle,
		streamPatience,
		portforward.SupportedProtocols,
	)
}

var _ portforward.PortForwarder = (*pod)(nil)

// PortForward implements [portforward.PortForwarder]: it connects to the Pod's own loopback.
func (p *pod) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	conn, err := p.dialLoopback(ctx, port)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // either side may end it
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, conn)
	return err
}

func (p *pod) dialLoopback(ctx context.Context, port int32) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	dial := func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		return err
	}
	if p.network.namespace == nil {
		return conn, dial()
	}
	err = osthread.Inside(p.network.namespace, dial)
	return conn, err
}
