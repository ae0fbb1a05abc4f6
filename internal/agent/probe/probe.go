package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// Probe is a health check of the application. Exactly one of HTTP, TCP, GRPC and Exec is set.
type Probe struct {
	HTTP *HTTP
	TCP  *TCP
	GRPC *GRPC
	// Exec is a command whose exit status 0 means healthy.
	Exec []string
	// Timeout bounds the probe. If 0, which only lifecycle hooks have, there is no limit.
	Timeout time.Duration
}

// HTTP is a GET request. Status 200 to 399 means healthy.
type HTTP struct {
	// Host is the host to connect to. If empty, it is the workload.
	Host string
	Port uint16
	Path string
	// Secure selects HTTPS. The server's certificate is not verified.
	Secure  bool
	Headers http.Header
}

// TCP is a connection attempt. An empty Host is the workload.
type TCP struct {
	Host string
	Port uint16
}

// GRPC is a request of grpc.health.v1.Health. An empty Service checks the server as a whole.
type GRPC struct {
	Port    uint16
	Service string
}

// Prober performs probes of an application.
type Prober struct {
	// Application is the workload's own address.
	Application netip.Addr
	dialer      net.Dialer
	transport   *http.Transport
}

// NewProber returns a Prober for the application at an address, 127.0.0.1 if that is invalid. It
// uses no HTTP proxy, does not keep connections and does not verify certificates.
func NewProber(application netip.Addr) *Prober {
	if !application.IsValid() {
		application = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	p := &Prober{Application: application, dialer: net.Dialer{LocalAddr: &net.TCPAddr{IP: bypassAddress(application)}}}
	p.transport = &http.Transport{
		DialContext: p.dialContext, DisableKeepAlives: true, DisableCompression: true, Proxy: nil,
		// The probe's certificate check has no authority to trust, and the kubelet does not check
		// either.
		TLSClientConfig: insecureTLS(),
	}
	return p
}

// bypassAddress returns the source address whose connections to the application bypass traffic
// capture, as in Istio: 127.0.0.6 for IPv4, ::6 for IPv6.
func bypassAddress(application netip.Addr) net.IP {
	if application.Is4() {
		return net.IPv4(127, 0, 0, 6)
	}
	return net.ParseIP("::6")
}

// dialContext connects from bypassAddress to the workload's own address, and from the default
// source address to all others, or if bypassAddress does not exist.
func (p *Prober) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err != nil || ip.Unmap() != p.Application {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	connection, err := p.dialer.DialContext(ctx, network, address)
	if err != nil && errors.Is(err, errNoAddress()) { // ::6 exists only if IPv6 is captured
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return connection, err
}

// hostPort returns host:port, with the application's address if host is empty.
func (p *Prober) hostPort(host string, port uint16) string {
	if host == "" {
		host = p.Application.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// Check performs a probe within probe.Timeout, which must be positive. It uses the first of HTTP,
// TCP and gRPC that is set, or else runs probe.Exec. It returns nil if the application is healthy,
// otherwise the reason.
func (p *Prober) Check(ctx context.Context, probe Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probe.Timeout)
	defer cancel()
	switch {
	case probe.HTTP != nil:
		return p.checkHTTP(ctx, probe.HTTP)
	case probe.TCP != nil:
		return p.checkTCP(ctx, probe.TCP)
	case probe.GRPC != nil:
		return p.checkGRPC(ctx, probe.GRPC, "")
	default:
		return runCommand(ctx, probe.Exec)
	}
}

// checkTCP returns an error unless a connection can be opened, which it closes at once.
func (p *Prober) checkTCP(ctx context.Context, probe *TCP) error {
	connection, err := p.dialContext(ctx, "tcp", p.hostPort(probe.Host, probe.Port))
	if err != nil {
		return err
	}
	_ = connection.Close() // a successful connection is the result
	return nil
}

// checkGRPC queries gRPC's health service at the application's address in plaintext, and returns an
// error unless the answer is SERVING. userAgent precedes gRPC's own.
func (p *Prober) checkGRPC(ctx context.Context, probe *GRPC, userAgent string) error {
	connection, err := grpc.NewClient("passthrough:///"+p.hostPort("", probe.Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithUserAgent(userAgent),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return p.dialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	answer, err := healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{Service: probe.Service})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("application reports gRPC health %s", s)
	}
	return nil
}

// checkHTTP requests the probe's path (httpGet) and returns an error unless the response has a
// status from 200 to 399.
func (p *Prober) checkHTTP(ctx context.Context, probe *HTTP) error {
	answer, err := p.httpGet(ctx, probe, probe.Headers, "")
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("application responded %s", answer.Status)
	}
	return nil
}
