package ca

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Registration is an Issuer that has certificates signed by an external signer, through Kubernetes
// CertificateSigningRequests. It trusts the signer's key but not its diligence: it checks every
// returned certificate against the request (same key, same SPIFFE ID, allowed lifetime, trusted
// root).
type Registration struct {
	o RegistrationOptions

	mu      sync.Mutex
	roots   []*x509.Certificate
	changed notify.Broadcast
}

var _ Issuer = (*Registration)(nil)

// RegistrationOptions are the settings of a Registration.
type RegistrationOptions struct {
	Signing SigningRequests
	// Signer is the default signer (K8S_SIGNER). SignerDomain and a slash prefix the signer that a
	// request names (CERT_SIGNER_DOMAIN); if SignerDomain is empty, requests that name one are
	// refused.
	Signer, SignerDomain string
	Lifetimes            Lifetimes
	// SignerRoots returns the roots of a signer that has its own (MeshConfig.caCertificates with
	// certSigners). If it returns none, the roots set by [Registration.SetRoots] apply.
	SignerRoots func(signer string) []*x509.Certificate
	Log         *slog.Logger
	Now         func() time.Time
}

// NewRegistration returns a Registration without roots: until SetRoots is called, only signers with
// roots of their own can issue. Lifetimes, Log and Now have defaults if they are zero:
// DefaultLifetimes, no log and the system's clock.
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
	return &Registration{o: o}
}

// SetRoots replaces the default roots by the distinct PEM certificates in text, and notifies if the
// set of roots changed. It returns an error, and changes nothing, if text has no certificate, or
// one is invalid or may not sign.
func (r *Registration) SetRoots(text []byte) error {
	list, err := ParseCertificates(text)
	if err != nil {
		return fmt.Errorf("the roots of the signer: %w", err)
	}
	if list, err = distinctSigners(list); err != nil {
		return fmt.Errorf("the roots of the signer: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if sameSet(list, r.roots) {
		return nil
	}
	r.roots = list
	r.changed.Notify()
	return nil
}

// Roots returns the roots of SetRoots, nil before, and a channel that is closed when they change.
func (r *Registration) Roots() ([]*x509.Certificate, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots, r.changed.Changed()
}

// Issue requests a certificate for q.ID from the signer SignerDomain/q.Signer, or the default
// signer if q names none. It verifies the certificate (verifyIssued) and returns the chain with
// that signer's roots. It refuses CSRs that are invalid or name anything but q.ID, lifetimes over
// the maximum, q.Signer without a SignerDomain, and requests without any signer. All errors are
// IssueErrors.
func (r *Registration) Issue(ctx context.Context, q Request) (Issued, error) {
	request, err := parseCSR(q.CSR)
	if err == nil {
		err = checkRequestNames(request, q.ID)
	}
	if err != nil {
		return Issued{}, newIssueError(CauseCSR, codes.InvalidArgument, err)
	}
	lifetime, err := r.o.Lifetimes.forRequest(q.Lifetime)
	if err != nil {
		return Issued{}, newIssueError(CauseTTL, codes.InvalidArgument, err)
	}
	signer := r.o.Signer
	if q.Signer != "" {
		if r.o.SignerDomain == "" {
			return Issued{}, newIssueError(
				CauseCSR,
				codes.InvalidArgument,
				errors.New("the request names a signer, but CERT_SIGNER_DOMAIN is empty"),
			)
		}
		signer = r.o.SignerDomain + "/" + q.Signer
	}
	if signer == "" {
		return Issued{}, newIssueError(
			CauseNotReady,
			codes.Unavailable,
			errors.New("the request names no signer, and K8S_SIGNER is empty"),
		)
	}
	roots := r.signerRoots(signer)
	text, err := r.o.Signing.Sign(ctx, SigningRequest{
		CSR: q.CSR, Signer: signer, Lifetime: lifetime, Usages: workloadUsages(),
	})
	if err != nil {
		return Issued{}, newIssueError(CauseSigning, codes.Unavailable, err)
	}
	chain, err := r.verifyIssued(text, request, q.ID, roots)
	if err != nil {
		return Issued{}, newIssueError(
			CauseSigning,
			codes.Internal,
			fmt.Errorf("signer %s returned an invalid certificate: %w", signer, err),
		)
	}
	return Issued{Chain: chain, Roots: roots}, nil
}

// signerRoots returns the roots that RegistrationOptions.SignerRoots has for the signer. If that is
// nil or has none, it returns the roots of SetRoots.
func (r *Registration) signerRoots(signer string) []*x509.Certificate {
	if r.o.SignerRoots != nil {
		if roots := r.o.SignerRoots(signer); len(roots) > 0 {
			return roots
		}
	}
	roots, _ := r.Roots()
	return roots
}

// workloadUsages returns the key usages of workload certificates: signature, key encipherment, and
// TLS as server and client.
func workloadUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageServerAuth,
		certificatesv1.UsageClientAuth,
	}
}

// checkRequestNames returns an error unless the only alternative name in the CSR is the URI id, and
// its subject is empty, because a signer might copy others into the certificate. Attributes without
// a value are allowed in the subject: Istio's agent sends an empty organization. The extension of
// alternative names is the only one that is allowed.
func checkRequestNames(r *x509.CertificateRequest, id spiffe.ID) error {
	named := slices.ContainsFunc(r.Subject.Names, func(a pkix.AttributeTypeAndValue) bool { return a.Value != "" })
	if named || len(r.URIs) != 1 || r.URIs[0].String() != id.String() || !hasOneAltName(r.Extensions) {
		return fmt.Errorf("the certificate request must name %s and nothing else", id)
	}
	for _, e := range r.Extensions {
		if !e.Id.Equal(oidAltName()) {
			return fmt.Errorf(
				"the certificate request has an extension (%s); only the subject alternative name is allowed",
				e.Id)
		}
	}
	return nil
}

// oidAltName returns the identifier of the extension of alternative names.
func oidAltName() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 29, 17} }

// hasOneAltName reports whether the extensions contain exactly one alternative name of any type. It
// returns false if an extension of names is malformed. Package x509 skips some types, such as
// otherName.
func hasOneAltName(extensions []pkix.Extension) bool {
	var names []asn1.RawValue
	for _, e := range extensions {
		if !e.Id.Equal(oidAltName()) {
			continue
		}
		if _, err := asn1.Unmarshal(e.Value, &names); err != nil {
			return false
		}
	}
	return len(names) == 1
}

// verifyIssued returns the chain in a signer's response without certificates of trusted. It returns
// an error unless the leaf is an X.509-SVID for id without further alternative names, and has the
// key of the request. The leaf must also expire within Lifetimes.Max, and verify against trusted
// with the other certificates as intermediates. Its subject is not checked.
func (r *Registration) verifyIssued(
	text []byte,
	request *x509.CertificateRequest,
	id spiffe.ID,
	trusted []*x509.Certificate,
) ([]*x509.Certificate, error) {
	chain, err := ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	leaf := chain[0]
	if !samePublicKey(leaf.PublicKey, request.PublicKey) {
		return nil, errors.New("it has another public key")
	}
	switch named, err := spiffe.LeafID(leaf); {
	case err != nil:
		return nil, err
	case named != id || !hasOneAltName(leaf.Extensions):
		return nil, fmt.Errorf("it names %s, or additional names", named)
	}
	now := r.o.Now()
	if leaf.NotAfter.Sub(now) > r.o.Lifetimes.Max+backdate {
		return nil, fmt.Errorf("it expires at %v, after the maximum lifetime", leaf.NotAfter)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(
		x509.VerifyOptions{
			Roots:         roots,
			Intermediates: intermediates,
			CurrentTime:   now,
			KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		},
	); err != nil {
		return nil, err
	}
	// Some signers append their root.
	return slices.DeleteFunc(
		chain,
		func(c *x509.Certificate) bool { return slices.ContainsFunc(trusted, c.Equal) },
	), nil
}
