package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/meshpilot/meshpilot/internal/agent/outbound"
)

const (
	// dialTimeout bounds establishing a connection, from name resolution to the TLS handshake.
	dialTimeout = 5 * time.Second
	// A peer behind a broken path is detected after the sum of these.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	// maxMessage bounds one message: the configuration of a large mesh arrives as one.
	maxMessage = 500 << 20
	// flowWindow is the initial flow control window: much configuration arrives at once.
	flowWindow = 1 << 20
	// maxToken bounds how much of a token file is read. gRPC servers accept no headers beyond 16
	// KiB.
	maxToken = 64 << 10
)

// NewConnection returns a connection to the address, which connects on first use, not through
// HTTPS_PROXY. The token is sent only over TLS. more is applied last and so overrides the options
// here. The caller must close the connection; an address that gRPC cannot parse is an error.
func (t Target) NewConnection(address string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	config, dialer := backoff.DefaultConfig, outbound.NewDialer(t.Mark)
	config.BaseDelay, config.MaxDelay = 100*time.Millisecond, dialTimeout
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(t.transportCredentials(address)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: config, MinConnectTimeout: dialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(flowWindow), grpc.WithInitialConnWindowSize(flowWindow),
		// The environment's HTTPS_PROXY is meant for the application.
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		// Otherwise gRPC queries name servers for a TXT record before it connects, and waits for
		// their answer. A machine that resolves the name in /etc/hosts may have no name server.
		grpc.WithDisableServiceConfig(),
		// Spreads agents over the replicas behind one name.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}`),
	}
	if t.Token != "" && !t.Plaintext {
		options = append(options, grpc.WithPerRPCCredentials(tokenFile(t.Token)))
	}
	connection, err := grpc.NewClient("dns:///"+address, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("control plane %s: %w", address, err)
	}
	return connection, nil
}

// WithMetadata returns a context whose calls carry the target's metadata in addition to the
// outgoing metadata of ctx.
func (t Target) WithMetadata(ctx context.Context) context.Context {
	for name, value := range t.Metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	return ctx
}

// transportCredentials returns the credentials for connections to the address: none in plaintext,
// otherwise TLS that reads the target's files at each handshake.
func (t Target) transportCredentials(address string) credentials.TransportCredentials {
	if t.Plaintext {
		return insecure.NewCredentials()
	}
	return &reloadingTLS{target: t, name: t.expectedServerName(address)}
}

// expectedServerName returns the name that the certificate of the server at an address must have:
// ServerName if it is set, otherwise the host of the address. For localhost it is the name of
// Istio's control plane. An address without a port is returned as it is.
func (t Target) expectedServerName(address string) string {
	if t.ServerName != "" {
		return t.ServerName
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if host == "localhost" {
		return "istiod.istio-system.svc" // a forwarded port, whose control plane has no certificate for localhost
	}
	return host
}

// reloadingTLS implements TLS transport credentials that read roots and certificate from their
// files for each handshake.
type reloadingTLS struct {
	target Target
	name   string
}

var _ credentials.TransportCredentials = (*reloadingTLS)(nil)

// ClientHandshake performs the TLS handshake with the current files. It returns an error if they
// are invalid.
func (f *reloadingTLS) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.target.tlsConfig(f.name)
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake returns an error: the credentials are for clients only.
func (f *reloadingTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("client credentials cannot be used by a server")
}

// Info returns the protocol and server name.
func (f *reloadingTLS) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{ServerName: f.name, MinVersion: tls.VersionTLS12}).Info()
}

// Clone returns a copy.
func (f *reloadingTLS) Clone() credentials.TransportCredentials { c := *f; return &c }

// OverrideServerName sets the server name and returns nil. gRPC itself no longer calls this
// deprecated method of the interface.
func (f *reloadingTLS) OverrideServerName(name string) error { f.name = name; return nil }

// tlsConfig returns the client's configuration for a server called name, from the files of the
// target. It leaves out the client certificate if Token is set and the certificate is missing or
// expired. Other unreadable files, and roots without a certificate, are errors. Without Roots the
// system's are used.
func (t Target) tlsConfig(name string) (*tls.Config, error) {
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if t.Roots != "" {
		text, err := os.ReadFile(t.Roots)
		if err != nil {
			return nil, fmt.Errorf("read control plane roots: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("control plane roots: no certificate in %s", t.Roots)
		}
	}
	if t.Certificate == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if errors.Is(err, os.ErrNotExist) && t.Token != "" {
		return config, nil // the token suffices until the first certificate is written
	}
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	if t.Token != "" && pair.Leaf.NotAfter.Before(time.Now()) {
		return config, nil // a server would abort the handshake; happens on machines that were off for long
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// tokenFile implements per-call credentials that read the token from its file for each call,
// because it is renewed while the agent runs.
type tokenFile string

var _ credentials.PerRPCCredentials = tokenFile("")

// GetRequestMetadata reads the file at each call and returns the token as bearer authorization. If
// the file is missing or empty, it returns nil without an error: the client certificate may suffice
// for the server. A file that is unreadable or larger than maxToken is an error.
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	file, err := os.Open(string(t))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read workload token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return nil, fmt.Errorf("read workload token: %w", err)
	}
	if len(text) > maxToken {
		return nil, fmt.Errorf("read workload token: %s has more than %d bytes", string(t), maxToken)
	}
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + trimmed}, nil
}

// RequireTransportSecurity returns true: a token must not be sent in plain text.
func (t tokenFile) RequireTransportSecurity() bool { return true }
