package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // the type that spdy.NewDialer returns
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forwarder connects to a port of a pod through the API server. It keeps one port-forward, and
// starts a new port-forward after the present one has ended.
type Forwarder struct {
	config               *rest.Config
	namespace, pod, port string

	mu     sync.Mutex
	local  string        // address of the present port-forward
	done   chan struct{} // closed when the present port-forward has ended; nil before the first
	cancel context.CancelFunc
}

// NewForwarder returns a Forwarder to a port of a pod. The port-forward starts with the first
// connection.
func NewForwarder(config *rest.Config, namespace, pod string, port int) *Forwarder {
	return &Forwarder{config: config, namespace: namespace, pod: pod, port: strconv.Itoa(port)}
}

// DialContext connects to the port of the pod, and starts the port-forward if none is active. The
// network and the address are ignored.
func (f *Forwarder) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	address, err := f.localAddress(ctx)
	if err != nil {
		return nil, fmt.Errorf("port-forward to pod %s/%s, port %s: %w", f.namespace, f.pod, f.port, err)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Listen returns the address of this machine that is forwarded to the port of the pod, and a
// channel that is closed when the port-forward has ended. It starts the port-forward if none is
// active.
func (f *Forwarder) Listen(ctx context.Context) (address string, ended <-chan struct{}, err error) {
	address, err = f.localAddress(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("port-forward to pod %s/%s, port %s: %w", f.namespace, f.pod, f.port, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return address, f.done, nil
}

// Close ends the port-forward and waits until its listener is closed. It does nothing if none was
// started.
func (f *Forwarder) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done != nil {
		f.cancel()
		<-f.done
	}
}

// localAddress returns the address of a local listener that is forwarded to the pod. It starts a
// port-forward if there is none, or if the last one has ended, and blocks until that accepts
// connections (start). It returns an error if this fails. f.mu must not be held.
func (f *Forwarder) localAddress(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done != nil {
		select {
		case <-f.done:
		default:
			return f.local, nil
		}
	}
	if err := f.start(ctx); err != nil {
		return "", err
	}
	return f.local, nil
}

// start starts a port-forward, which outlives ctx, and returns when it accepts connections. It
// returns an error if that fails or ctx ends before. f.mu must be held.
func (f *Forwarder) start(ctx context.Context) error {
	dialer, err := f.dialer()
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(quiet(context.WithoutCancel(ctx)))
	ready, done := make(chan struct{}), make(chan struct{})
	forward, err := portforward.NewOnAddressesWithContext(
		background, dialer, []string{"127.0.0.1"}, []string{"0:" + f.port}, ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return err
	}
	var failure error
	go func() { // panics end the command
		defer close(done)
		failure = forward.ForwardPorts()
	}()
	f.done, f.cancel = done, cancel
	select {
	case <-ready:
	case <-done:
		cancel()
		return failure
	case <-ctx.Done():
		cancel()
		return ctx.Err()
	}
	ports, err := forward.GetPorts()
	if err != nil {
		cancel()
		return err
	}
	f.local = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))
	return nil
}

// dialer returns the dialer of kubectl: SPDY over WebSockets, and SPDY alone if the API server or a
// proxy before it does not support that. Requests of the client are not rate limited.
func (f *Forwarder) dialer() (httpstream.Dialer, error) {
	config := rest.CopyConfig(f.config)
	config.RateLimiter = nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	target := client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(f.namespace).Name(f.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	return portforward.NewFallbackDialer(tunnel, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
