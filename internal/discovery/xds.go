package discovery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// serveXDS opens the xDS ports when all sources are in sync and the authority is open, and serves
// until ctx ends. Before, it waits a limited time for issuers' keys and for Secrets of plugins. At
// the end it closes the streams, and terminates the remaining ones after ShutdownDuration.
func (s *server) serveXDS(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ready.synced:
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.authority.Opened():
	}
	s.issuers.await(ctx)
	if s.pullSecrets != nil {
		s.pullSecrets.await(ctx)
	}
	ports, err := s.xdsPorts()
	if err != nil {
		return err
	}
	if len(ports) == 0 {
		s.log.Info("no xDS port is open, so no proxy can connect")
	}
	o := s.options
	ads := xds.New(xds.Options{
		Pusher: s.pusher, Logger: s.logs.Scope("ads"), Metrics: s.metrics,
		MaxRequestsPerSecond: o.Push.MaxRequestsPerSecond, Writers: o.Push.Throttle,
		Rebalance:  xds.Rebalance{MaxAge: maxAge(o.Keepalive.MaxServerConnectionAge), HourlyShare: o.Push.RebalancePerHour},
		Identifier: o.PodName, ClusterAliases: aliases(o.ClusterAliases),
		Generators: map[string]xds.Handler{feed.Generator: s.feed}, Workloads: s.workloads, RegisterPlaintext: o.Workloads.Plaintext, Recovery: s.recovery, Debug: questions{s}, Keys: s.keys,
		Authenticate: s.authority.Identities, Admit: s.admit,
	})
	serving, ctx := errgroup.WithContext(ctx)
	for _, p := range ports {
		ads.Register(p.grpc)
		if p.secure {
			s.authority.Register(xds.Guard{Server: p.grpc, Recovery: s.recovery})
		}
		reflection.Register(xds.Guard{Server: p.grpc, Authenticate: s.authority.CheckAuthenticated, Recovery: s.recovery})
		s.log.Info("serving xDS "+p.how, "address", p.listener.Addr().String())
		serving.Go(func() error {
			if err := p.grpc.Serve(p.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("%s: %w", p.flag, err)
			}
			return nil
		})
	}
	serving.Go(func() error { ads.Run(ctx); return nil })
	ads.SetReady(true)
	s.ready.serving("")
	<-ctx.Done()
	s.ready.serving("stopping")
	ads.Stop()
	for _, p := range ports {
		cut := time.AfterFunc(o.ShutdownDuration, p.grpc.Stop)
		p.grpc.GracefulStop()
		cut.Stop()
	}
	return serving.Wait()
}

// port is an open xDS port.
type port struct {
	flag     string
	how      string // "in plain text", "over TLS"
	secure   bool
	listener net.Listener
	grpc     *grpc.Server
}

// xdsPorts opens the configured xDS ports: one in plain text, and one over TLS if there is a
// serving certificate. If one cannot be opened, it closes all and returns an error.
func (s *server) xdsPorts() (ports []port, err error) {
	o := s.options
	open := func(flag, how, address string, config *tls.Config) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		counted := []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.metrics.m.GRPC.UnaryServerInterceptor())}
		ports = append(ports, port{flag, how, config != nil, l, grpc.NewServer(slices.Concat(counted, serve.Interceptors(s.recovery), xds.ServerOptions(xds.Transport{
			KeepaliveInterval: o.Keepalive.Interval, KeepaliveTimeout: o.Keepalive.Timeout, TLS: config,
			Limits: o.Limits, Anonymous: !o.Authority.AuthenticateXDS,
		}))...)})
		return nil
	}
	defer func() {
		if err != nil {
			for _, p := range ports {
				_ = p.listener.Close() // Nothing was served on it.
			}
		}
	}()
	if o.GRPCAddr != "" {
		if err := open("--grpcAddr", "in plain text", o.GRPCAddr, nil); err != nil {
			return ports, err
		}
	}
	if o.SecureGRPCAddr == "" || s.authority.Serving() == nil {
		return ports, nil
	}
	config, err := s.secure()
	if err != nil {
		return ports, fmt.Errorf("--secureGRPCAddr: %w", err)
	}
	return ports, open("--secureGRPCAddr", "over TLS", o.SecureGRPCAddr, config)
}

// secure returns the TLS configuration of the xDS port. Client certificates are optional. They are
// verified against the roots of --caCertFile, and of the certificate authority if there is one.
func (s *server) secure() (*tls.Config, error) {
	o := s.options
	config := xds.TLS{
		MinVersion: o.tlsVersion(), CipherSuites: o.cipherSuites(), TrustDomains: s.authority.TrustDomains,
		Files: xds.CertificateFiles{Certificate: o.TLSCertFile, Key: o.TLSKeyFile, Roots: o.CACertFile},
	}
	if s.authority.HasIssuer() || o.TLSCertFile == "" {
		config.Certificate, config.Roots = s.authority.Serving().GetCertificate, s.authority.ClientRoots
	}
	c, err := config.Config(s.log)
	if err != nil {
		return nil, err
	}
	comply(o.Webhooks.Compliance, c)
	return c, nil
}

// maxAge returns the age at which connections are closed. The flag's default of about three hundred
// years becomes 0, which is no limit.
func maxAge(d time.Duration) time.Duration {
	if d == math.MaxInt64 {
		return 0
	}
	return d
}

// aliases parses alias=cluster pairs, which Options.Validate has checked.
func aliases(pairs []string) map[mesh.ClusterID]mesh.ClusterID {
	m := map[mesh.ClusterID]mesh.ClusterID{}
	for _, p := range pairs {
		if alias, cluster, ok := strings.Cut(p, "="); ok {
			m[mesh.ClusterID(alias)] = mesh.ClusterID(cluster)
		}
	}
	return m
}
