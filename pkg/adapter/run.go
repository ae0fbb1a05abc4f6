package adapter

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Options configure Run. Platform and Address must be set.
type Options struct {
	// Platform is the name of the platform: letters, digits and "-". Control planes show it as the
	// provider of the services.
	Platform string
	// Address is the address to listen at for xDS, "host:port".
	Address string
	// TLS are the certificates. If nil, the server does not use TLS, and Address must be a loopback
	// address.
	TLS *TLS
	// MetricsAddress is the address for /metrics and /ready, over HTTP. If empty, they are not
	// served.
	MetricsAddress string
	// StateFile keeps the last known state over a restart, so that an adapter that starts while the
	// platform is unreachable, or has lost its data, serves what it served before. If empty, the
	// state is not kept. One process may use a file.
	StateFile string
	// Follow configures retries and the guard against removals. Its Logger defaults to Logger.
	Follow FollowOptions
	Logger *slog.Logger // if nil, nothing is logged
	// Listening is called with the address of the xDS server, if it is set.
	Listening func(net.Addr)
}

// TLS are the certificates of an adapter, in PEM files. CertFile and KeyFile are read again for
// each connection, ClientCAFile at the start.
type TLS struct {
	CertFile, KeyFile string
	// ClientCAFile contains the roots of client certificates. If empty, any client is allowed.
	ClientCAFile string
	// Clients are the identities of which a client certificate must have one, as URI or DNS name:
	// "spiffe://cluster.local/ns/istio-system/sa/istiod". If empty, every certificate of
	// ClientCAFile is accepted.
	Clients []string
}

// Run serves the services of a platform as ServiceEntries, by configuration over xDS, until ctx
// ends, and then returns nil. It returns an error if it cannot listen or an option is invalid. A
// state file that is malformed, or the state of another platform, is an error too.
//
// Without a state of an earlier process, it does not answer requests for ServiceEntries before the
// platform has reported everything once. So a client keeps its ServiceEntries, even if the platform
// is unreachable.
func Run(ctx context.Context, p Platform, o Options) error {
	if err := o.prepare(); err != nil {
		return err
	}
	creds, err := o.credentials()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("adapter: %w", err)
	}
	served := newCatalog(o.Platform, o.Logger)
	follower := NewFollower(p, o.Follow, served.apply)
	server := newGRPCServer(creds, &xdsServer{catalog: served, log: o.Logger, stopping: ctx.Done()})
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.MetricsAddress != "" {
		pages, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.MetricsAddress)
		if err != nil {
			listener.Close()
			return fmt.Errorf("adapter: metrics: %w", err)
		}
		running.Go(func() { serveMetrics(ctx, pages, newMetricsHandler(o.Platform, follower, served)) })
	}
	if o.Listening != nil {
		o.Listening(listener.Addr())
	}
	followed := make(chan struct{})
	running.Go(func() { defer close(followed); follower.Run(ctx) })
	if o.StateFile != "" {
		w := stateWriter{o.StateFile, o.Platform, follower, o.Logger, served.saveFailures}
		running.Go(func() { w.run(ctx, followed) })
	}
	running.Go(func() {
		<-ctx.Done()
		server.Stop()
	})
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("adapter: %w", err)
	}
	return nil
}

// prepare sets the defaults of the loggers, and reads the state of an earlier process. It returns
// an error if Platform is empty or the state file is invalid.
func (o *Options) prepare() error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Follow.Logger == nil {
		o.Follow.Logger = o.Logger
	}
	if o.Platform == "" {
		return errors.New("adapter: Options.Platform is empty")
	}
	if o.StateFile != "" {
		restored, err := readState(o.StateFile, o.Platform)
		if err != nil {
			return fmt.Errorf("adapter: %w; without the file, the adapter begins without a state", err)
		}
		o.Follow.restored = restored
	}
	return nil
}

// newGRPCServer returns a server of x with limits on streams and keepalive, and the options creds.
func newGRPCServer(creds []grpc.ServerOption, x *xdsServer) *grpc.Server {
	server := grpc.NewServer(append(creds,
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams),
	)...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, x)
	return server
}

// maxStreams limits the streams of one connection. A control plane opens one.
const maxStreams = 16

// credentials returns the server's TLS options, or none without TLS, which it refuses unless
// Address is a loopback address. The certificate is read again for each connection. With
// ClientCAFile, clients must have a certificate that it verifies, and one of Clients if set.
// Unreadable files, and Clients without ClientCAFile, are errors.
func (o Options) credentials() ([]grpc.ServerOption, error) {
	if o.TLS == nil {
		host, _, err := net.SplitHostPort(o.Address)
		if err != nil {
			return nil, fmt.Errorf("adapter: Options.Address: %w", err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, fmt.Errorf("adapter: without TLS, %s must be a loopback address", cmp.Or(host, "the address"))
		}
		return nil, nil
	}
	t := o.TLS
	if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
		return nil, fmt.Errorf("adapter: Options.TLS: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &c, err
		},
	}
	if t.ClientCAFile == "" {
		if len(t.Clients) > 0 {
			return nil, errors.New("adapter: Options.TLS: Clients needs ClientCAFile")
		}
		return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}, nil
	}
	roots, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("adapter: Options.TLS: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("adapter: Options.TLS: %s has no certificate", t.ClientCAFile)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = t.verifyClient
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}, nil
}

// verifyClient returns an error unless the client's certificate has one of t.Clients as a DNS name
// or URI, compared exactly; without Clients all are allowed. It runs for resumed connections too.
func (t *TLS) verifyClient(s tls.ConnectionState) error {
	if len(t.Clients) == 0 {
		return nil
	}
	if len(s.PeerCertificates) == 0 {
		return errors.New("no client certificate")
	}
	leaf := s.PeerCertificates[0]
	names := slices.Clone(leaf.DNSNames)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(t.Clients, n) }) {
		return fmt.Errorf("the client %s is not allowed", strings.Join(names, ", "))
	}
	return nil
}

// serveMetrics serves h on l until ctx ends, and closes l.
func serveMetrics(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	_ = server.Serve(l) // returns when the server is closed
}
