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

// Probe is one question to the application: exactly one of its kinds.
type Probe struct {
	HTTP *HTTP
	TCP  *TCP
	GRPC *GRPC
	// Exec is a command whose exit status 0 is well.
	Exec    []string
	Timeout time.Duration
}

// HTTP asks for a path; any status from 200 to 399 is well.
type HTTP struct {
	// Host is whom to ask, "" for the workload.
	Host    string
	Port    uint16
	Path    string
	Secure  bool
	Headers http.Header
}

// TCP connects.
type TCP struct {
	Host string
	Port uint16
}

// GRPC asks grpc.health.v1.Health; the service is "" for the server as a whole.
type GRPC struct {
	Port    uint16
	Service string
}

// Prober puts questions to an application.
type Prober struct {
	// Application is the workload's own address.
	Application netip.Addr
	dialer      net.Dialer
	plain       *http.Transport
}

// NewProber makes one for the application at that address.
func NewProber(application netip.Addr) *Prober {
	if !application.IsValid() {
		application = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	p := &Prober{Application: application, dialer: net.Dialer{LocalAddr: &net.TCPAddr{IP: passed(application)}}}
	p.plain = &http.Transport{
		DialContext: p.dial, DisableKeepAlives: true, DisableCompression: true, Proxy: nil,
		// Whoever a probe is for has no authority that it would know, and kubelet does not check either.
		TLSClientConfig: insecureTLS(),
	}
	return p
}

// passed is the source address of connections to the application that capture lets pass by the proxy, as Istio has it.
func passed(application netip.Addr) net.IP {
	if application.Is4() {
		return net.IPv4(127, 0, 0, 6)
	}
	return net.ParseIP("::6")
}

// dial connects from the address that capture lets pass to addresses of the workload, and as usual to others.
func (p *Prober) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err != nil || ip.Unmap() != p.Application {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	connection, err := p.dialer.DialContext(ctx, network, address)
	if err != nil && errors.Is(err, errNoAddress()) { // IPv6: nobody has set it up, as it is without capture
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return connection, err
}

func (p *Prober) at(host string, port uint16) string {
	if host == "" {
		host = p.Application.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// Check gives nil if the application is well by the probe, or else why it is not.
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
		return run(ctx, probe.Exec)
	}
}

func (p *Prober) checkTCP(ctx context.Context, probe *TCP) error {
	connection, err := p.dial(ctx, "tcp", p.at(probe.Host, probe.Port))
	if err != nil {
		return err
	}
	_ = connection.Close() // that it was there is all that counts
	return nil
}

func (p *Prober) checkGRPC(ctx context.Context, probe *GRPC, userAgent string) error {
	connection, err := grpc.NewClient("passthrough:///"+p.at("", probe.Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithUserAgent(userAgent),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return p.dial(ctx, "tcp", address) }))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	answer, err := healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{Service: probe.Service})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the application says %s", s)
	}
	return nil
}

func (p *Prober) checkHTTP(ctx context.Context, probe *HTTP) error {
	answer, err := p.get(ctx, probe, probe.Headers, "")
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the application answers %s", answer.Status)
	}
	return nil
}
