package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/identity/membership"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// authority is the certificate authority and the authentication of its callers and of xDS clients,
// both on port 15012.
type authority struct {
	o            AuthorityOptions
	log          *slog.Logger
	trustDomains authenticate.TrustDomains

	// issuer signs the certificates of workloads and service serves them over gRPC. Both are nil if
	// there is no authority.
	issuer  ca.Issuer
	service *ca.Service
	// keeper loads and renews the authority's certificate and key from the first of homes that has
	// them. It is nil if an external signer is used.
	keeper *ca.Reloader
	homes  []authorityHome
	// serving is the certificate of the TLS ports, or nil if there is none.
	serving *ca.ServingCertificate
	// servedByOthers reports whether an external signer issues the serving certificate.
	servedByOthers bool
	// callers are the authentication methods, in order. They are complete when opened is closed.
	callers authenticate.Chain
	opened  chan struct{}
	// membership decides which workloads may renew their certificates.
	membership *membership.Registry
}

// newAuthority creates the authority, its gRPC service and the source of the serving certificate as
// the options require. It reads no key material and opens no port.
func (s *server) newAuthority() (*authority, error) {
	a := &authority{
		o: s.options.Authority, log: obs.Limited(s.logs.Scope("ca")), opened: make(chan struct{}),
		trustDomains: func() []string { return s.current.Load().Settings.TrustDomains() },
	}
	a.membership = membership.New(membership.Options{
		Snapshot: s.current.Load, SystemNamespace: s.options.Namespace, Grace: s.options.Authority.RenewalGrace, UnsyncedClusters: s.unsyncedClusters,
	})
	local, err := s.newIssuer(a)
	if err != nil {
		return nil, err
	}
	s.metrics.m.Authority.Expiry(a.expiry)
	a.serving = s.newServing(a, local)
	if a.issuer != nil {
		a.service = ca.NewService(ca.ServiceOptions{
			Authenticators: authenticate.Chain{a}, Issuer: a.issuer, TrustDomain: func() string { return a.trustDomains()[0] },
			CheckMember: a.membership.Check, Impersonation: s.impersonation(a), Metrics: s.metrics.authority(), Log: a.log,
		})
	}
	return a, nil
}

// newIssuer sets a.issuer. It returns the control plane's own Authority if that signs, or nil if an
// external signer does, if the CA is off or if there is no store for its key.
func (s *server) newIssuer(a *authority) (*ca.Authority, error) {
	if a.o.Off {
		return nil, nil
	}
	if a.o.External != "" {
		external, err := s.newRegistration(a)
		if err == nil {
			a.issuer = external
		}
		return nil, err
	}
	homes, err := s.authorityHomes(a.o)
	if err != nil || len(homes) == 0 {
		return nil, err
	}
	local := ca.NewAuthority(ca.AuthorityOptions{Lifetimes: a.o.Lifetimes, Log: a.log})
	a.issuer, a.homes = local, homes
	a.keeper = &ca.Reloader{Authority: local, Rotation: a.o.Rotation, Log: a.log, OnLoadError: s.metrics.authorityLoaded}
	return local, nil
}

// newServing returns the certificate of the TLS ports: read from files, signed by the control
// plane's own authority, or signed by Kubernetes. It returns nil if none of them is configured. It
// sets a.servedByOthers unless the source is files or the own authority.
func (s *server) newServing(a *authority, local *ca.Authority) *ca.ServingCertificate {
	o := s.options
	var source ca.CertificateSource
	switch provider := a.o.CertProvider; {
	case o.TLSCertFile != "":
		source = ca.FileSource{Certificate: o.TLSCertFile, Key: o.TLSKeyFile, Roots: o.CACertFile}
	case provider == providerCustom:
		source = ca.FileSource{
			Certificate: "./var/run/secrets/istiod/tls/tls.crt", Key: "./var/run/secrets/istiod/tls/tls.key",
			Roots: "./var/run/secrets/istiod/ca/root-cert.pem",
		}
	case (provider == "" || provider == providerIstiod) && local != nil:
		from := ca.AuthoritySource{Authority: local, KeyType: a.o.KeyType}
		for _, host := range a.o.hosts(o.Namespace, o.Revision) {
			if ip := net.ParseIP(host); ip != nil {
				from.Addresses = append(from.Addresses, ip)
			} else {
				from.Names = append(from.Names, host)
			}
		}
		if s.client == nil { // Without Kubernetes, local clients do not use the DNS name of a Service.
			from.Names = append(from.Names, "localhost")
			from.Addresses = append(from.Addresses, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
		}
		source = from
	default:
		source = s.kubernetesServing(a)
		a.servedByOthers = true
	}
	if source == nil {
		return nil
	}
	return ca.NewServingCertificate(source, a.log)
}

// String returns the name of the authority among authenticators.
func (a *authority) String() string { return "the mesh" }

// Authenticate returns the identity of a caller. It returns ErrUnavailable until the authority has
// been opened.
func (a *authority) Authenticate(ctx context.Context, r authenticate.Request) (authenticate.Caller, error) {
	select {
	case <-a.opened:
		return a.callers.Authenticate(ctx, r)
	default:
		return authenticate.Caller{}, authenticate.ErrUnavailable
	}
}

// run opens the authority once the mesh settings are known and runs its tasks until ctx ends. It
// returns an error if the authority's material or the serving certificate cannot be read.
func (a *authority) run(ctx context.Context, s *server) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ready.synced:
	}
	if err := a.open(ctx, s); err != nil {
		return err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { a.membership.Run(ctx) })
	if external, ok := a.issuer.(*ca.Registration); ok {
		parts.Go(func() { a.followExternalRoots(ctx, external) })
	}
	if err := a.serve(ctx, &parts); err != nil {
		return err
	}
	if a.issuer != nil {
		parts.Go(func() { s.followRoots(ctx, a.issuer) })
	}
	if a.issuer != nil && s.elections != nil && !a.o.NoRootConfigMaps {
		parts.Go(func() { s.leadRoots(ctx) })
	}
	close(a.opened)
	if a.keeper == nil {
		<-ctx.Done()
		return nil
	}
	return a.keeper.Run(ctx)
}

// serve obtains the certificate of the TLS ports and starts its renewal. It returns an error if the
// first attempt fails, unless an external signer issues the certificate. In that case it logs a
// warning, and TLS handshakes fail until the certificate arrives.
func (a *authority) serve(ctx context.Context, parts *sync.WaitGroup) error {
	if a.serving == nil {
		if a.issuer != nil {
			a.log.Warn("no certificates are served: the control plane has none itself; set PILOT_CERT_PROVIDER to k8s.io/SIGNER or custom, or give --tlsCertFile")
		}
		return nil
	}
	if err := a.serving.Renew(ctx); err != nil {
		if !a.servedByOthers {
			return fmt.Errorf("the control plane's own certificate: %w", err)
		}
		a.log.Warn("the control plane has no certificate yet", "err", err)
	}
	parts.Go(func() { a.serving.Run(ctx) })
	return nil
}

// open loads or creates the authority's certificate and key, and then the authenticators with the
// key of workload tokens.
func (a *authority) open(ctx context.Context, s *server) error {
	if a.keeper != nil {
		if err := a.openKeeper(ctx); err != nil {
			return err
		}
	}
	callers, err := s.authenticators(a)
	a.callers = callers
	return err
}

// pool returns the roots against which client certificates are verified. It is empty without an
// authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	if a.issuer == nil {
		return pool
	}
	roots, _ := a.issuer.Roots()
	for _, r := range roots {
		pool.AddCert(r)
	}
	return pool
}

// register adds the certificate service to the gRPC server of the TLS port, if there is an
// authority.
func (a *authority) register(g grpc.ServiceRegistrar) {
	if a.service != nil {
		a.service.Register(g)
	}
}

// authenticated returns nil if the caller may call a service other than ADS and the certificate
// service. Otherwise it returns a gRPC status.
func (a *authority) authenticated(ctx context.Context) error {
	_, _, err := a.identities(ctx)
	return err
}

// identities returns the SPIFFE IDs of the client of an xDS stream and the cluster whose API server
// verified them, or "" if none did. On the plain-text port it returns no identities and no error,
// because clients there cannot authenticate. A client that fails authentication is refused with a
// gRPC status and logged, unless XDSAnyone is set.
func (a *authority) identities(ctx context.Context) (ids []string, cluster string, err error) {
	r := authenticate.RequestFromContext(ctx)
	if r.TLS == nil {
		return nil, "", nil
	}
	caller, err := a.Authenticate(ctx, r)
	switch {
	case err == nil:
		return []string{caller.ID.String()}, a.clusterOf(ctx, r, caller), nil
	case a.o.XDSAnyone:
		return nil, "", nil
	case errors.Is(err, authenticate.ErrUnavailable):
		a.log.Warn("a client of xDS cannot be authenticated now", "peer", r.Peer, "err", err)
		return nil, "", status.Error(codes.Unavailable, "clients cannot be authenticated now")
	default:
		a.log.Warn("a client of xDS is not authenticated", "peer", r.Peer, "err", err)
		return nil, "", status.Error(codes.Unauthenticated, "authentication failure")
	}
}

// clusterOf returns the cluster whose API server verified the caller, or "" if none did. A
// certificate does not name a cluster. A caller with a certificate may therefore also send a token,
// which is used only if its identity is the same.
func (a *authority) clusterOf(ctx context.Context, r authenticate.Request, c authenticate.Caller) string {
	if !c.HasCertificate {
		return c.Cluster
	}
	r.TLS = nil
	if other, err := a.Authenticate(ctx, r); err == nil && other.ID == c.ID {
		return other.Cluster
	}
	return ""
}

// admit refuses a proxy whose namespace and service account match none of its authenticated
// identities. A proxy may be any workload of its own service account. If p has no service account,
// admit sets it from the identity. Nothing is checked in plain text, without identities, or if
// XDSAnyIdentity is set.
func (a *authority) admit(p *mesh.Proxy, h xds.Hello) error {
	if !h.Secure || len(h.Identities) == 0 || a.o.XDSAnyIdentity {
		return nil
	}
	for _, text := range h.Identities {
		account, ok := spiffe.AccountOf(text)
		if !ok || account.Namespace != p.Namespace || p.Metadata.ServiceAccount != "" && p.Metadata.ServiceAccount != account.Name {
			continue
		}
		p.Metadata.ServiceAccount = account.Name
		return nil
	}
	a.log.Warn("a client of xDS claims to be a proxy of another identity", "peer", h.Peer, "node", p.ID, "namespace", p.Namespace,
		"serviceAccount", p.Metadata.ServiceAccount, "identities", h.Identities)
	return status.Errorf(codes.PermissionDenied, "authorization failed: no identity of %q matches %s/%s", h.Identities, p.Namespace, p.Metadata.ServiceAccount)
}

// reader returns the namespace of the service account that requests a debug page. It returns an
// error if the caller is not authenticated or is not a service account.
func (a *authority) reader(r *http.Request) (string, error) {
	caller, err := a.Authenticate(r.Context(), authenticate.RequestFromHTTP(r))
	if err != nil {
		return "", err
	}
	account, ok := caller.ID.Account()
	if !ok {
		return "", errors.New("the caller is no service account")
	}
	return account.Namespace, nil
}
