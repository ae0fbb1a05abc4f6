package ca

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Registration has certificates signed by others, by way of Kubernetes' CertificateSigningRequests. It vouches for callers, and
// looks at what comes back: who signs is trusted to sign, and nobody is trusted to have read the request.
type Registration struct {
	o RegistrationOptions

	mu      sync.Mutex
	roots   []*x509.Certificate
	changed chan struct{}
}

var _ Issuer = (*Registration)(nil)

// RegistrationOptions are the settings of a Registration.
type RegistrationOptions struct {
	Signing SigningRequests
	// Signer signs if a request names nobody. K8S_SIGNER. SignerDomain and a slash come before the name that a request has; "":
	// requests cannot choose. CERT_SIGNER_DOMAIN.
	Signer, SignerDomain string
	Lifetimes            Lifetimes
	// SignerRoots gives the roots of a signer that has its own (MeshConfig.caCertificates with certSigners); none: those of [Registration.Use].
	SignerRoots func(signer string) []*x509.Certificate
	Log         *slog.Logger
	Now         func() time.Time
}

// NewRegistration makes a Registration that trusts nobody before it is given roots.
func NewRegistration(o RegistrationOptions) *Registration {
	if o.Lifetimes == (Lifetimes{}) {
		o.Lifetimes = DefaultLifetimes()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Registration{o: o, changed: make(chan struct{})}
}

// Use trusts these roots from now on, in PEM.
func (r *Registration) Use(text []byte) error {
	list, err := ParseCertificates(text)
	if err != nil {
		return fmt.Errorf("the roots of the signer: %w", err)
	}
	for _, c := range list {
		if err := spiffe.CheckSigner(c); err != nil {
			return fmt.Errorf("the roots of the signer: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if sameSet(list, r.roots) {
		return nil
	}
	r.roots = list
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// Roots gives what the mesh is to trust.
func (r *Registration) Roots() ([]*x509.Certificate, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots, r.changed
}

// Issue has a certificate signed.
func (r *Registration) Issue(ctx context.Context, q Request) (Issued, error) {
	request, err := parseRequest(q.CSR)
	if err == nil {
		err = asksFor(request, q.ID)
	}
	if err != nil {
		return Issued{}, refuse(CauseCSR, codes.InvalidArgument, err)
	}
	lifetime, err := r.o.Lifetimes.of(q.Lifetime)
	if err != nil {
		return Issued{}, refuse(CauseTTL, codes.InvalidArgument, err)
	}
	signer := r.o.Signer
	if q.Signer != "" {
		if r.o.SignerDomain == "" {
			return Issued{}, refuse(CauseCSR, codes.InvalidArgument, errors.New("a signer is asked for, and CERT_SIGNER_DOMAIN is empty"))
		}
		signer = r.o.SignerDomain + "/" + q.Signer
	}
	if signer == "" {
		return Issued{}, refuse(CauseNotReady, codes.Unavailable, errors.New("no signer is asked for, and K8S_SIGNER is empty"))
	}
	roots := r.rootsOf(signer)
	text, err := r.o.Signing.Sign(ctx, SigningRequest{
		CSR: q.CSR, Signer: signer, Lifetime: lifetime, Usages: workloadUsages(),
	})
	if err != nil {
		return Issued{}, refuse(CauseSigning, codes.Unavailable, err)
	}
	chain, err := r.inspect(text, request, q.ID, roots)
	if err != nil {
		return Issued{}, refuse(CauseSigning, codes.Internal, fmt.Errorf("what %s has signed is not handed on: %w", signer, err))
	}
	return Issued{Chain: chain, Roots: roots}, nil
}

func (r *Registration) rootsOf(signer string) []*x509.Certificate {
	if r.o.SignerRoots != nil {
		if own := r.o.SignerRoots(signer); len(own) > 0 {
			return own
		}
	}
	roots, _ := r.Roots()
	return roots
}

func workloadUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth,
	}
}

// asksFor holds a request that others are handed to the caller's identity: it names that and nothing besides. What the signer does
// with other names or extensions nobody here knows.
func asksFor(r *x509.CertificateRequest, id spiffe.ID) error {
	if len(r.URIs) != 1 || r.URIs[0].String() != id.String() || len(r.DNSNames)+len(r.IPAddresses)+len(r.EmailAddresses) > 0 {
		return fmt.Errorf("the certificate request must name %s and nothing else", id)
	}
	for _, e := range r.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			return fmt.Errorf("the certificate request asks for an extension (%s), and may name an identity only", e.Id)
		}
	}
	return nil
}

// inspect reads what was signed: it must be a certificate of the identity, for the key of the request, that leads to the roots.
func (r *Registration) inspect(text []byte, request *x509.CertificateRequest, id spiffe.ID, trusted []*x509.Certificate) ([]*x509.Certificate, error) {
	chain, err := ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	leaf := chain[0]
	if !samePublicKey(leaf.PublicKey, request.PublicKey) {
		return nil, errors.New("it is for another key")
	}
	switch named, err := spiffe.Leaf(leaf); {
	case err != nil:
		return nil, err
	case named != id || len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0:
		return nil, fmt.Errorf("it names %s, or more than that", named)
	}
	now := r.o.Now()
	if leaf.NotAfter.Sub(now) > r.o.Lifetimes.Most+backdate {
		return nil, fmt.Errorf("it is good until %v", leaf.NotAfter)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, err
	}
	// Some signers send their root along.
	return slices.DeleteFunc(chain, func(c *x509.Certificate) bool { return slices.ContainsFunc(trusted, c.Equal) }), nil
}
