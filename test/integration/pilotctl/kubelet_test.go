package pilotctl

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// kubelet serves port-forwards of pods with the streaming code of the real one, and a line as the log of each
// container. A port of a pod is an address of this machine.
type kubelet struct {
	port int32

	mu    sync.Mutex
	ports map[string]string // addresses by "POD:PORT"
}

var _ portforward.PortForwarder = (*kubelet)(nil)

// startKubelet starts a kubelet that forwards no port yet.
func startKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{ports: map[string]string{}}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if parts[0] == "containerLogs" {
			fmt.Fprintln(w, "the log of", parts[len(parts)-1])
			return
		}
		if len(parts) < 3 || parts[0] != "portForward" {
			http.NotFound(w, r)
			return
		}
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, k, parts[2], parts[2], options, time.Minute, 10*time.Second, portforward.SupportedProtocols)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	k.port = int32(n)
	return k
}

// forward connects a port of a pod with an address; "" refuses connections.
func (k *kubelet) forward(pod string, port int, address string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ports[fmt.Sprintf("%s:%d", pod, port)] = address
}

// PortForward implements [portforward.PortForwarder].
func (k *kubelet) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	k.mu.Lock()
	address := k.ports[fmt.Sprintf("%s:%d", name, port)]
	k.mu.Unlock()
	if address == "" {
		return fmt.Errorf("pod %s does not listen at port %d", name, port)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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
