package discovery

import (
	"context"
	"crypto/tls"
	"fmt"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// serveXDS opens the xDS ports when all sources are in sync and the authority is open, after a
// limited wait for issuers' keys and for Secrets of plugins. It serves until ctx ends or a port
// fails, and sets the readiness of the control plane. At the end it closes the streams, and
// terminates the remaining ones after ShutdownDuration. It returns an error if a port cannot be
// opened or fails, and nil after the end of ctx.
func (s *server) serveXDS(ctx context.Context) error {
	for _, started := range []<-chan struct{}{s.ready.Synced(), s.authority.Opened()} {
		select {
		case <-ctx.Done():
			return nil
		case <-started:
		}
	}
	s.issuers.AwaitWanted(ctx)
	s.secrets.AwaitPullSecrets(ctx, s.pullSecrets)
	ports, err := s.openXDSPorts()
	if err != nil {
		return err
	}
	ads := s.newADS()
	for _, p := range ports {
		ads.Register(p.GRPC)
		if p.Secure {
			s.authority.Register(xds.Guard{Server: p.GRPC, Recovery: s.recovery})
		}
		reflection.Register(xds.Guard{Server: p.GRPC, Authenticate: s.authority.CheckAuthenticated, Recovery: s.recovery})
		s.log.Info("serving xDS "+p.Protocol(), "address", p.Address())
	}
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error { ads.Run(ctx); return nil })
	serving.Go(func() error {
		return xds.ServePorts(ctx, ports, func() {
			s.ready.SetServing("stopping")
			ads.Stop()
		}, s.options.ShutdownDuration)
	})
	ads.SetReady(true)
	s.ready.SetServing("")
	return serving.Wait()
}

// newADS returns the xDS server with the options of s. It opens no port.
func (s *server) newADS() *xds.Server {
	o := s.options
	return xds.New(xds.Options{
		Pusher: s.pusher, Logger: s.logs.Scope("ads"), Metrics: s.xdsMetrics, Recovery: s.recovery,
		MaxRequestsPerSecond: o.Push.MaxRequestsPerSecond, Writers: o.Push.Throttle,
		Rebalance:  xds.Rebalance{MaxAge: o.Keepalive.MaxAge(), HourlyShare: o.Push.RebalancePerHour},
		Identifier: o.PodName, ClusterAliases: o.AliasMap(), Generators: map[string]xds.Handler{feed.Generator: s.feed},
		Workloads: workloads{s.registrar}, RegisterPlaintext: o.Workloads.AllowPlaintext,
		Authenticate: s.authority.Identities, Admit: s.admit, Keys: s.secrets.AuthorizeKeys,
		Debug: debug.XDS{Pages: s.pages, API: s.readAPI(nil).Read, PodName: o.PodName}, Refused: &s.refused,
	})
}

// openXDSPorts opens the configured xDS ports: one in plain text, and one over TLS if there is a
// serving certificate. If one cannot be opened, it closes all and returns an error. If none is
// configured, it logs that and returns an empty list.
func (s *server) openXDSPorts() ([]*xds.Port, error) {
	o := s.options
	var list []xds.PortAddress
	if o.GRPCAddr != "" {
		list = append(list, xds.PortAddress{Flag: "--grpcAddr", Address: o.GRPCAddr})
	}
	if o.SecureGRPCAddr != "" && s.authority.Serving() != nil {
		config, err := s.secure()
		if err != nil {
			return nil, fmt.Errorf("--secureGRPCAddr: %w", err)
		}
		list = append(list, xds.PortAddress{Flag: "--secureGRPCAddr", Address: o.SecureGRPCAddr, TLS: config})
	}
	if len(list) == 0 {
		s.log.Info("no xDS port is open, so no proxy can connect")
	}
	interceptors := []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.metrics.GRPC.UnaryServerInterceptor())}
	interceptors = append(interceptors, serve.Interceptors(s.recovery)...)
	return xds.OpenPorts(list, xds.Transport{
		KeepaliveInterval: o.Keepalive.Interval, KeepaliveTimeout: o.Keepalive.Timeout,
		Limits: o.Limits, Anonymous: !o.Authority.AuthenticateXDS,
	}, interceptors...)
}

// secure returns the TLS configuration of the xDS port. With an issuer, or without --tlsCertFile,
// it uses the certificate and the ClientRoots of s.authority. Otherwise it uses the files of the
// flags, with the roots in --caCertFile, and returns an error if they cannot be used. Client
// certificates are optional and are verified against these roots.
func (s *server) secure() (*tls.Config, error) {
	o := s.options
	config := xds.TLS{
		MinVersion: o.TLS.MinVersionID(), CipherSuites: o.TLS.CipherSuiteIDs(), TrustDomains: s.authority.TrustDomains,
		Files: xds.CertificateFiles{Certificate: o.TLSCertFile, Key: o.TLSKeyFile, Roots: o.CACertFile},
	}
	if s.authority.HasIssuer() || o.TLSCertFile == "" {
		config.Certificate, config.Roots = s.authority.Serving().GetCertificate, s.authority.ClientRoots
	}
	c, err := config.Config(s.log)
	if err != nil {
		return nil, err
	}
	o.TLS.ApplyCompliance(c)
	return c, nil
}
