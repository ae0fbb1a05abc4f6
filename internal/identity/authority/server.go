package authority

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/identity/membership"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Options are the settings and dependencies of a Server.
type Options struct {
	Settings Settings
	// Namespace and Revision identify the control plane, ClusterID is the name of its cluster.
	Namespace, Revision, ClusterID string
	// ServingFiles are the files with the serving certificate. If the certificate's name is empty,
	// Settings.CertProvider selects another source.
	ServingFiles ca.FileSource

	// Client accesses the control plane's own API server. If nil, there is none.
	Client *kube.Client
	// ClusterClient returns the client of a cluster by its name or an alias, or nil if the cluster
	// is unknown.
	ClusterClient func(cluster string) *kube.Client
	// UnsyncedClusters returns the names of the clusters whose workloads are not known yet.
	UnsyncedClusters func() []string
	// Elections elect the replica that publishes the roots. If nil, they are not published.
	Elections *leader.Elections

	// Snapshot returns the newest snapshot. Synced is closed when it has the content of all
	// sources, and SettingsChanged returns a channel that is closed when its mesh settings change.
	Snapshot        func() *snapshot.Snapshot
	Synced          <-chan struct{}
	SettingsChanged func() <-chan struct{}

	Metrics *obs.AuthorityMetrics
	Log     *slog.Logger
}

// Server is the certificate authority and the authentication of its callers and of xDS clients.
type Server struct {
	o   Options
	log *slog.Logger

	// issuer signs the certificates of workloads and service serves them over gRPC. Both are nil if
	// there is no authority.
	issuer  ca.Issuer
	service *ca.Service
	// reloader loads and renews the authority's certificate and key from the first of stores that
	// has them. It is nil if an external signer is used.
	reloader *ca.Reloader
	stores   []store
	// serving is the certificate of the TLS ports, or nil if there is none.
	serving *ca.ServingCertificate
	// servedByOthers reports whether an external signer issues the serving certificate.
	servedByOthers bool
	// callers are the authentication methods, in order. They are complete when opened is closed.
	callers authenticate.Chain
	opened  chan struct{}
	// membership decides which workloads may renew their certificates.
	membership *membership.Registry
	roots      *RootsFeed
	// issued has the certificates of workloads that service has issued, for Inventory.
	issued issuedCache
}

// New returns the authority, with its gRPC service and the source of the serving certificate as the
// settings require. It opens no port, and sets the expiry functions of o.Metrics. It reads no key
// material, except to find out whether Settings.PluggedDir has any. It returns an error if that
// fails, or an external signer has no API server.
func New(o Options) (*Server, error) {
	s := &Server{o: o, log: obs.Limited(o.Log), opened: make(chan struct{})}
	s.membership = membership.New(membership.Options{
		Snapshot: o.Snapshot, SystemNamespace: o.Namespace, Grace: o.Settings.RenewalGrace,
		UnsyncedClusters: o.UnsyncedClusters,
	})
	local, err := s.newIssuer()
	if err != nil {
		return nil, err
	}
	o.Metrics.Expiry(s.expiry)
	s.serving = s.newServing(local)
	if s.serving != nil {
		o.Metrics.ServingExpiry(s.serving.Expiry)
	}
	s.roots = newRootsFeed(s.issuer != nil)
	if s.issuer != nil {
		s.service = ca.NewService(ca.ServiceOptions{
			Authenticators: authenticate.Chain{s}, Issuer: recordingIssuer{s.issuer, &s.issued},
			TrustDomain: func() string { return s.TrustDomains()[0] },
			CheckMember: s.membership.Check, Impersonation: s.newImpersonation(), Metrics: serviceMetrics{o.Metrics},
			Log: s.log,
		})
	}
	return s, nil
}

// TrustDomains returns the trust domain of the mesh, followed by its aliases, in the newest
// snapshot.
func (s *Server) TrustDomains() []string { return s.o.Snapshot().Settings.TrustDomains() }

// HasIssuer reports whether the mesh's certificates are issued here, by an own authority or through
// an external signer.
func (s *Server) HasIssuer() bool { return s.issuer != nil }

// Serving returns the certificate of the TLS ports, or nil if the settings name no source for one.
func (s *Server) Serving() *ca.ServingCertificate { return s.serving }

// Opened returns a channel that is closed when Run has opened the authority, so that callers can be
// authenticated.
func (s *Server) Opened() <-chan struct{} { return s.opened }

// RootsFeed returns the feed of the mesh's trust roots.
func (s *Server) RootsFeed() *RootsFeed { return s.roots }

// Register adds the certificate service to the gRPC server of the TLS port. It does nothing without
// an issuer.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	if s.service != nil {
		s.service.Register(g)
	}
}

// Run opens the authority once the mesh settings are known, closes the channel of Opened, and runs
// its tasks until ctx ends. It returns an error if the authority's material, the key of workload
// tokens or the serving certificate cannot be read. It also returns the error of the reloader.
// Before it returns, it ends its tasks and waits for them. If ctx ends before the authority could
// be loaded, it returns nil and does not close the channel.
func (s *Server) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.o.Synced:
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil { // The reloader may have no store yet.
		return nil
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { s.membership.Run(ctx) })
	if external, ok := s.issuer.(*ca.Registration); ok {
		parts.Go(func() { s.pollExternalRoots(ctx, external) })
	}
	if err := s.obtainServing(ctx, &parts); err != nil {
		return err
	}
	if s.issuer != nil {
		parts.Go(func() { s.roots.sendRoots(ctx, s.issuer) })
	}
	if s.PublishesRoots() {
		parts.Go(func() { s.publishAsLeader(ctx, leader.RootCertificates, s.o.Client.Kubernetes) })
	}
	close(s.opened)
	if s.reloader == nil {
		<-ctx.Done()
		return nil
	}
	return s.reloader.Run(ctx)
}

// open loads or creates the authority's certificate and key, if it has its own, until ctx ends
// (openReloader). It then sets the authenticators, for which it loads or creates the key of
// workload tokens. It returns an error if either fails.
func (s *Server) open(ctx context.Context) error {
	if s.reloader != nil {
		if err := s.openReloader(ctx); err != nil {
			return err
		}
	}
	callers, err := s.authenticators()
	s.callers = callers
	return err
}

// obtainServing obtains the certificate of the TLS ports and starts its renewal. If the first
// attempt fails, it returns an error; but if an external signer issues the certificate, it only
// logs, and TLS handshakes fail until the certificate arrives. Without a source it logs a warning
// if there is an issuer.
func (s *Server) obtainServing(ctx context.Context, parts *sync.WaitGroup) error {
	if s.serving == nil {
		if s.issuer != nil {
			s.log.Warn("no certificates are served: the control plane has none itself; " +
				"set PILOT_CERT_PROVIDER to k8s.io/SIGNER or custom, or give --tlsCertFile")
		}
		return nil
	}
	if err := s.serving.Renew(ctx); err != nil {
		if !s.servedByOthers {
			return fmt.Errorf("the control plane's own certificate: %w", err)
		}
		s.log.Warn("the control plane has no certificate yet", "err", err)
	}
	parts.Go(func() { s.serving.Run(ctx) })
	return nil
}
