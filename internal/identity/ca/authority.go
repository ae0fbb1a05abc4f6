package ca

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Lifetimes are the default and the maximum lifetime of workload certificates.
type Lifetimes struct {
	// Default applies if a request names no lifetime (DEFAULT_WORKLOAD_CERT_TTL, 24 hours).
	Default time.Duration
	// Max is the longest lifetime that a request may name (MAX_WORKLOAD_CERT_TTL, 90 days).
	Max time.Duration
}

// DefaultLifetimes returns Istio's defaults.
func DefaultLifetimes() Lifetimes {
	return Lifetimes{Default: 24 * time.Hour, Max: 90 * 24 * time.Hour}
}

// forRequest returns the lifetime of a certificate: the requested one, or Default if that is 0 or
// negative. It returns an error if the requested lifetime exceeds Max.
func (l Lifetimes) forRequest(asked time.Duration) (time.Duration, error) {
	switch {
	case asked <= 0:
		return l.Default, nil
	case asked > l.Max:
		return 0, fmt.Errorf("the requested lifetime %v exceeds %v", asked, l.Max)
	}
	return asked, nil
}

// backdate is how far NotBefore lies in the past, for clients whose clock is behind.
const backdate = 2 * time.Minute

// Authority is an Issuer that signs with its own key. Its material can be replaced at any time.
// Authority is safe for concurrent use.
type Authority struct {
	lifetimes Lifetimes
	now       func() time.Time
	random    io.Reader
	log       *slog.Logger

	mu       sync.Mutex
	material *Material // nil until ReplaceMaterial succeeds
	changed  notify.Broadcast
}

var _ Issuer = (*Authority)(nil)

// AuthorityOptions are the settings of an Authority. Zero values select defaults.
type AuthorityOptions struct {
	Lifetimes Lifetimes
	Now       func() time.Time
	Random    io.Reader
	Log       *slog.Logger
}

// NewAuthority returns an Authority without material: Issue returns CauseNotReady until
// ReplaceMaterial succeeds. Options that are zero have defaults: DefaultLifetimes, the system's
// clock and random source, and no log.
func NewAuthority(o AuthorityOptions) *Authority {
	a := &Authority{lifetimes: o.Lifetimes, now: o.Now, random: o.Random, log: o.Log}
	if a.lifetimes == (Lifetimes{}) {
		a.lifetimes = DefaultLifetimes()
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.random == nil {
		a.random = rand.Reader
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a
}

// ReplaceMaterial parses the files and signs with them from now on. It reports whether the material
// changed, and logs and notifies the change. If the files are invalid, it returns an error and
// keeps the current material.
func (a *Authority) ReplaceMaterial(f Files) (bool, error) {
	m, err := f.Parse(a.now())
	if err != nil {
		return false, err
	}
	return a.setMaterial(m), nil
}

// setMaterial signs with m from now on. It reports whether m differs from the current material, and
// logs and notifies the change.
func (a *Authority) setMaterial(m *Material) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.isEqual(a.material) {
		return false
	}
	a.material = m
	a.changed.Notify()
	a.log.Info(
		"certificate authority uses new signing certificate",
		"subject", m.Certificate.Subject.String(),
		"serial", m.Certificate.SerialNumber.Text(16),
		"until", m.NotAfter,
		"roots", len(m.Roots),
	)
	return true
}

// Material returns the current material, nil before the first ReplaceMaterial, and a channel that
// is closed when it is replaced.
func (a *Authority) Material() (*Material, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.material, a.changed.Changed()
}

// Roots returns the trust anchors, nil without material, and a channel that is closed when they may
// have changed.
func (a *Authority) Roots() ([]*x509.Certificate, <-chan struct{}) {
	m, changed := a.Material()
	if m == nil {
		return nil, changed
	}
	return m.Roots, changed
}

// RevocationLists returns the CRLs in PEM, or nil if there are none. The channel of Roots signals
// changes of them too.
func (a *Authority) RevocationLists() []byte {
	m, _ := a.Material()
	if m == nil {
		return nil
	}
	return m.RevocationLists
}

// Issue signs an X.509-SVID for r.ID with the public key of the CSR. It ignores all other content
// of the CSR. It refuses requests that name a signer, IDs without a path, invalid CSRs, and
// lifetimes over the maximum. All errors are IssueErrors, also those of signLeaf.
func (a *Authority) Issue(_ context.Context, r Request) (Issued, error) {
	if r.Signer != "" {
		return Issued{}, newIssueError(
			CauseCSR,
			codes.InvalidArgument,
			fmt.Errorf("the request names signer %.100q, but signers are not configured", r.Signer),
		)
	}
	if r.ID.Path() == "" {
		return Issued{}, newIssueError(CauseCSR, codes.InvalidArgument, errors.New("the identity has no path"))
	}
	request, err := parseCSR(r.CSR)
	if err != nil {
		return Issued{}, newIssueError(CauseCSR, codes.InvalidArgument, err)
	}
	lifetime, err := a.lifetimes.forRequest(r.Lifetime)
	if err != nil {
		return Issued{}, newIssueError(CauseTTL, codes.InvalidArgument, err)
	}
	return a.signLeaf(request.PublicKey, leafTemplate(r.ID), lifetime)
}

// IssueServer signs a certificate for the control plane's own servers, with these DNS names and
// addresses and the lifetime, which Lifetimes do not limit. The error is an *IssueError (signLeaf).
func (a *Authority) IssueServer(
	key crypto.PublicKey,
	names []string,
	addresses []net.IP,
	lifetime time.Duration,
) (Issued, error) {
	return a.signLeaf(key, &x509.Certificate{
		DNSNames: names, IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, lifetime)
}

// leafTemplate returns the template of an X.509-SVID. It has no subject, so x509 marks the subject
// alternative name as critical.
func leafTemplate(id spiffe.ID) *x509.Certificate {
	return &x509.Certificate{
		URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// signLeaf signs the template, in which it sets a new serial number and the times. NotAfter is
// capped at the expiry of the authority's chain. The error is an *IssueError: CauseNotReady without
// material or after its expiry, otherwise CauseSigning.
func (a *Authority) signLeaf(key crypto.PublicKey, template *x509.Certificate, lifetime time.Duration) (Issued, error) {
	m, _ := a.Material()
	if m == nil {
		return Issued{}, newIssueError(
			CauseNotReady,
			codes.Unavailable,
			errors.New("the authority has no certificate yet"),
		)
	}
	now := a.now()
	if !now.Before(m.NotAfter) {
		return Issued{}, newIssueError(
			CauseNotReady,
			codes.Unavailable,
			fmt.Errorf("the authority's certificate chain expired at %v", m.NotAfter),
		)
	}
	var err error
	if template.SerialNumber, err = newSerial(a.random); err != nil {
		return Issued{}, newIssueError(CauseSigning, codes.Internal, err)
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(lifetime)
	if template.NotAfter.After(m.NotAfter) {
		template.NotAfter = m.NotAfter
	}
	der, err := x509.CreateCertificate(a.random, template, m.Certificate, key, m.Key)
	if err != nil {
		return Issued{}, newIssueError(CauseSigning, codes.Internal, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Issued{}, newIssueError(CauseSigning, codes.Internal, err)
	}
	return Issued{Chain: append([]*x509.Certificate{leaf}, m.Intermediates...), Roots: m.Roots}, nil
}

// newSerial returns a random serial number from 1 to 2^127: positive and at most 20 bytes long (RFC
// 5280, 4.1.2.2).
func newSerial(random io.Reader) (*big.Int, error) {
	n, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
