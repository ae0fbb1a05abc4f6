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
	// dialTimeout bounds the way from a name to a connection with TLS.
	dialTimeout = 5 * time.Second
	// A peer behind a broken path is noticed after the sum of these.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	// maxMessage bounds one message: the whole state of a big mesh comes as one.
	maxMessage = 500 << 20
	// window is what may be on its way before it is acknowledged: much configuration comes at once.
	window = 1 << 20
	// maxToken bounds what is read of a token's file. gRPC's servers take no headers beyond 16 KiB.
	maxToken = 64 << 10
)

// Connect gives a connection to the address, which is not made before it is used. It is the caller's to close.
func (t Target) Connect(address string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	config, dialer := backoff.DefaultConfig, outbound.Dialer(t.Mark)
	config.BaseDelay, config.MaxDelay = 100*time.Millisecond, dialTimeout
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(t.transport(address)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: config, MinConnectTimeout: dialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		// The environment's HTTPS_PROXY is meant for the application.
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		// Else gRPC asks name servers for a TXT record of its own before it connects, for as long as those take to answer: a machine
		// that has the name in /etc/hosts may have none at all.
		grpc.WithDisableServiceConfig(),
		// Of several replicas behind one name not always the first.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}`),
	}
	if t.Token != "" && !t.Plaintext {
		options = append(options, grpc.WithPerRPCCredentials(token(t.Token)))
	}
	connection, err := grpc.NewClient("dns:///"+address, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("control plane %s: %w", address, err)
	}
	return connection, nil
}

// Context gives a context whose calls carry the target's metadata.
func (t Target) Context(ctx context.Context) context.Context {
	for name, value := range t.Metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	return ctx
}

func (t Target) transport(address string) credentials.TransportCredentials {
	if t.Plaintext {
		return insecure.NewCredentials()
	}
	return &fresh{target: t, name: t.nameOf(address)}
}

// nameOf is the name that the certificate of the server at an address must have.
func (t Target) nameOf(address string) string {
	if t.ServerName != "" {
		return t.ServerName
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if host == "localhost" {
		return "istiod.istio-system.svc" // a forwarded port leads to a control plane that has no other name
	}
	return host
}

// fresh is TLS whose roots and certificate are read anew for each handshake.
type fresh struct {
	target Target
	name   string
}

var _ credentials.TransportCredentials = (*fresh)(nil)

// ClientHandshake makes a connection secure.
func (f *fresh) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.target.tls(f.name)
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake is not for clients.
func (f *fresh) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are credentials of a client")
}

// Info tells gRPC what this is.
func (f *fresh) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{ServerName: f.name, MinVersion: tls.VersionTLS12}).Info()
}

// Clone gives a copy; there is nothing in it that changes.
func (f *fresh) Clone() credentials.TransportCredentials { c := *f; return &c }

// OverrideServerName is of a part of the interface that gRPC itself does not use any more.
func (f *fresh) OverrideServerName(name string) error { f.name = name; return nil }

func (t Target) tls(name string) (*tls.Config, error) {
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if t.Roots != "" {
		text, err := os.ReadFile(t.Roots)
		if err != nil {
			return nil, fmt.Errorf("read the roots of the control plane: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("roots of the control plane: %s has no certificate", t.Roots)
		}
	}
	if t.Certificate == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if errors.Is(err, os.ErrNotExist) && t.Token != "" {
		return config, nil // the token will do, and the certificate is written once there is one
	}
	if err != nil {
		return nil, fmt.Errorf("read the agent's certificate: %w", err)
	}
	if t.Token != "" && pair.Leaf.NotAfter.Before(time.Now()) {
		return config, nil // of a machine that was off for long; a server would end the handshake
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// token is the file of a token, read for each call: it is renewed under the agent.
type token string

var _ credentials.PerRPCCredentials = token("")

// GetRequestMetadata reads the token. Without one the call goes on, and the server says what it thinks of that: a certificate
// may do as well.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	file, err := os.Open(string(t))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the workload's token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return nil, fmt.Errorf("read the workload's token: %w", err)
	}
	if len(text) > maxToken {
		return nil, fmt.Errorf("read the workload's token: %s has more than %d bytes", string(t), maxToken)
	}
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + trimmed}, nil
}

// RequireTransportSecurity is true: whoever reads a token on the way can use it.
func (t token) RequireTransportSecurity() bool { return true }
