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

// authority is the certificate authority and those who ask it: what port 15012 is opened for.
type authority struct {
	o            AuthorityOptions
	log          *slog.Logger
	trustDomains authenticate.TrustDomains

	// issuer signs workloads' certificates, service serves it; nil: there is no authority.
	issuer  ca.Issuer
	service *ca.Service
	// keeper has the authority's material, from the first of the homes that has any; nil where others sign.
	keeper *ca.Reloader
	homes  []authorityHome
	// serving is the certificate of the ports; nil: there is none.
	serving *ca.ServingCertificate
	// servedByOthers says that somebody else signs it.
	servedByOthers bool
	// callers are the ways to prove who one is. They are complete when opened is closed.
	callers authenticate.Chain
	opened  chan struct{}
	// membership decides whose certificates are renewed.
	membership *membership.Registry
}

// newAuthority makes the parts that the options ask for. It opens nothing.
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

// newIssuer makes what signs certificates: the control plane itself, whose Authority it gives, or others.
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

// newServing makes the certificate of the ports: from files, or signed by our own authority or by Kubernetes.
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
		if s.client == nil { // proxies and people of a laptop call the control plane by no Service's name
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

// String names the authority among authenticators.
func (a *authority) String() string { return "the mesh" }

// Authenticate says who a caller is. Until the authority is open that is nobody.
func (a *authority) Authenticate(ctx context.Context, r authenticate.Request) (authenticate.Caller, error) {
	select {
	case <-a.opened:
		return a.callers.Authenticate(ctx, r)
	default:
		return authenticate.Caller{}, authenticate.ErrUnavailable
	}
}

// run opens the authority when the mesh's settings are known, and keeps it until the context ends.
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

// serve gets the certificate of the ports, and keeps it. What others sign may come later: until then handshakes fail.
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

// open reads the authority's material, or makes it, and with it the key of workload tokens.
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

// pool gives what certificates of clients are verified against.
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

// register adds the certificate service to the port with TLS.
func (a *authority) register(g grpc.ServiceRegistrar) {
	if a.service != nil {
		a.service.Register(g)
	}
}

// authenticated returns nil if the caller of a service other than ADS and certificates may call it, else a gRPC status.
func (a *authority) authenticated(ctx context.Context) error {
	_, _, err := a.identities(ctx)
	return err
}

// identities returns who opens a stream of xDS, and the cluster whose API server vouches for that, "" if none does. In plain text nothing
// can be proved, and nothing is asked.
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

// clusterOf returns the cluster whose API server vouches for a caller. A certificate does not name one; a caller that has shown one may
// send a token of the same identity besides.
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

// admit holds a proxy to the identity that it has proved: it may be any workload of that service account, and no other. What it
// leaves open about itself is filled in by what it has proved.
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

// reader gives the namespace of the service account that asks for a debug page.
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
