package authority

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// authenticators returns the authentication methods that the settings enable, in order. Client
// certificates are always first; workload tokens follow if Dir is set, and OIDC if configured. Then
// come Kubernetes tokens if there is an API server, and certificates forwarded by TrustedGateways
// if any are set. It returns an error if the key of workload tokens cannot be loaded or created in
// Dir.
func (s *Server) authenticators() (authenticate.Chain, error) {
	settings := s.o.Settings
	chain := authenticate.Chain{authenticate.ClientCertificate{TrustDomains: s.TrustDomains}}
	if settings.Dir != "" {
		key, err := ca.LoadOrCreateTokenKey(settings.Dir, rand.Reader)
		if err != nil {
			return nil, err
		}
		tokens, err := authenticate.NewWorkloadToken(&key.PublicKey, settings.Audiences, s.TrustDomains, nil)
		if err != nil {
			return nil, err
		}
		tokens.HasWorkload = s.membership.HasWorkload
		chain = append(chain, tokens)
	}
	if settings.OIDC != nil {
		// The operator has configured the address, so it may be on this machine.
		client := fetch.NewClient(fetch.Options{Loopback: true})
		chain = append(chain, authenticate.NewOIDC(*settings.OIDC, s.TrustDomains, client, s.log, nil))
	}
	if s.o.Client != nil {
		chain = append(chain, authenticate.NewKubernetes(authenticate.KubernetesOptions{
			TrustDomains: s.TrustDomains, Audiences: settings.Audiences, Cluster: s.o.ClusterID,
			Reviews: s.tokenReviews,
		}))
	}
	if len(settings.TrustedGateways) > 0 {
		chain = append(chain, authenticate.ForwardedCertificate{TrustDomains: s.TrustDomains,
			TrustedNetworks: settings.TrustedGateways})
	}
	return chain, nil
}

// tokenReviews returns the TokenReview client of a cluster, or nil if the cluster is unknown.
func (s *Server) tokenReviews(cluster string) authenticate.TokenReviews {
	if c := s.o.ClusterClient(cluster); c != nil {
		return c.Reviews
	}
	return nil
}

// String returns the name of the authority among authenticators.
func (s *Server) String() string { return "the mesh" }

// Authenticate returns the identity of a caller. It returns ErrUnavailable until the authority has
// been opened.
func (s *Server) Authenticate(ctx context.Context, r authenticate.Request) (authenticate.Caller, error) {
	select {
	case <-s.opened:
		return s.callers.Authenticate(ctx, r)
	default:
		return authenticate.Caller{}, authenticate.ErrUnavailable
	}
}

// CheckAuthenticated returns nil if the caller may call a service other than ADS and the
// certificate service. Otherwise it returns the gRPC status of Identities. It returns nil for each
// caller in plain text or if AuthenticateXDS is not set.
func (s *Server) CheckAuthenticated(ctx context.Context) error {
	_, _, err := s.Identities(ctx)
	return err
}

// Identities returns the SPIFFE IDs of the client of an xDS stream, and the cluster whose API
// server verified them, "" if none did. On the plain-text port it returns no identities and no
// error, because clients there cannot authenticate. A client that fails authentication is refused
// with a gRPC status and logged if AuthenticateXDS is set; otherwise it has no identities.
func (s *Server) Identities(ctx context.Context) (ids []string, cluster string, err error) {
	r := authenticate.RequestFromContext(ctx)
	if r.TLS == nil {
		return nil, "", nil
	}
	caller, err := s.Authenticate(ctx, r)
	switch {
	case err == nil:
		return []string{caller.ID.String()}, s.clusterOf(ctx, r, caller), nil
	case !s.o.Settings.AuthenticateXDS:
		return nil, "", nil
	case errors.Is(err, authenticate.ErrUnavailable):
		s.log.Warn("a client of xDS cannot be authenticated now", "peer", r.Peer, "err", err)
		return nil, "", status.Error(codes.Unavailable, "clients cannot be authenticated now")
	default:
		s.log.Warn("a client of xDS is not authenticated", "peer", r.Peer, "err", err)
		return nil, "", status.Error(codes.Unauthenticated, "authentication failure")
	}
}

// clusterOf returns the cluster whose API server verified the caller, or "" if none did. A
// certificate does not name a cluster. A caller with one may therefore also send a token, which is
// used only if its identity is the same.
func (s *Server) clusterOf(ctx context.Context, r authenticate.Request, c authenticate.Caller) string {
	if !c.HasCertificate {
		return c.Cluster
	}
	r.TLS = nil
	if other, err := s.Authenticate(ctx, r); err == nil && other.ID == c.ID {
		return other.Cluster
	}
	return ""
}

// Peer is the connection of an xDS client.
type Peer struct {
	Address string
	Secure  bool // over TLS
	// Identities are the authenticated SPIFFE IDs.
	Identities []string
}

// AdmitProxy returns PermissionDenied if none of the peer's identities is a service account of the
// proxy's namespace and, if the proxy names one, with that name. It sets the proxy's Identity to the
// first one that is, and its service account if it names none. It returns nil in plain text,
// without identities, or unless CheckXDSIdentity is set.
func (s *Server) AdmitProxy(p *mesh.Proxy, peer Peer) error {
	if !peer.Secure || len(peer.Identities) == 0 || !s.o.Settings.CheckXDSIdentity {
		return nil
	}
	for _, text := range peer.Identities {
		account, ok := spiffe.AccountOf(text)
		if !ok || account.Namespace != p.Namespace ||
			p.Metadata.ServiceAccount != "" && p.Metadata.ServiceAccount != account.Name {
			continue
		}
		p.Metadata.ServiceAccount, p.Identity = account.Name, text
		return nil
	}
	s.log.Warn("a client of xDS claims to be a proxy of another identity", "peer", peer.Address, "node", p.ID,
		"namespace", p.Namespace,
		"serviceAccount", p.Metadata.ServiceAccount, "identities", peer.Identities)
	return status.Errorf(codes.PermissionDenied, "authorization failed: no identity of %q matches %s/%s",
		peer.Identities, p.Namespace, p.Metadata.ServiceAccount)
}

// RequestNamespace returns the namespace of the service account that sent an HTTP request. It
// returns an error if the caller is not authenticated or no service account.
func (s *Server) RequestNamespace(r *http.Request) (string, error) {
	caller, err := s.Authenticate(r.Context(), authenticate.RequestFromHTTP(r))
	if err != nil {
		return "", err
	}
	account, ok := caller.ID.Account()
	if !ok {
		return "", errors.New("the caller is no service account")
	}
	return account.Namespace, nil
}

// ClientRoots returns the roots against which client certificates are verified now: the roots of
// Options.ServingFiles, if any, and the authority's, if there is one. The pool may be empty.
func (s *Server) ClientRoots() *x509.CertPool {
	pool := x509.NewCertPool()
	if s.serving != nil && s.o.ServingFiles.Roots != "" {
		bundle, _ := s.serving.CABundle()
		pool.AppendCertsFromPEM(bundle)
	}
	if s.issuer == nil {
		return pool
	}
	roots, _ := s.issuer.Roots()
	for _, r := range roots {
		pool.AddCert(r)
	}
	return pool
}
