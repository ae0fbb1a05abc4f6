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

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Lifetimes bound how long certificates are good.
type Lifetimes struct {
	// Usual is that of a workload's certificate for which nothing else is asked. DEFAULT_WORKLOAD_CERT_TTL, 24 hours.
	Usual time.Duration
	// Most is what may be asked for. MAX_WORKLOAD_CERT_TTL, 90 days.
	Most time.Duration
}

// DefaultLifetimes are Istio's.
func DefaultLifetimes() Lifetimes { return Lifetimes{Usual: 24 * time.Hour, Most: 90 * 24 * time.Hour} }

// of gives the lifetime of a certificate for which one was asked: 0 asks for none.
func (l Lifetimes) of(asked time.Duration) (time.Duration, error) {
	switch {
	case asked <= 0:
		return l.Usual, nil
	case asked > l.Most:
		return 0, fmt.Errorf("a lifetime of %v: more than %v", asked, l.Most)
	}
	return asked, nil
}

// backdate is how far the beginning of a certificate lies in the past, for clocks that are behind.
const backdate = 2 * time.Minute

// Authority signs with material that may be replaced at any time. It is for use by many goroutines.
type Authority struct {
	lifetimes Lifetimes
	now       func() time.Time
	random    io.Reader
	log       *slog.Logger

	mu       sync.Mutex
	material *Material // nil: none yet
	changed  chan struct{}
}

var _ Issuer = (*Authority)(nil)

// AuthorityOptions are the settings of an Authority. Zero values are defaults.
type AuthorityOptions struct {
	Lifetimes Lifetimes
	Now       func() time.Time
	Random    io.Reader
	Log       *slog.Logger
}

// NewAuthority makes an Authority that signs nothing before it is given material.
func NewAuthority(o AuthorityOptions) *Authority {
	a := &Authority{lifetimes: o.Lifetimes, now: o.Now, random: o.Random, log: o.Log, changed: make(chan struct{})}
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

// Use signs with these files from now on. Files that cannot be used change nothing. It gives whether they were news.
func (a *Authority) Use(f Files) (bool, error) {
	m, err := f.Load(a.now())
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.sameAs(a.material) {
		return false, nil
	}
	a.material = m
	close(a.changed)
	a.changed = make(chan struct{})
	a.log.Info("certificates are signed", "by", m.Certificate.Subject.String(), "serial", m.Certificate.SerialNumber.Text(16),
		"until", m.NotAfter, "roots", len(m.Roots))
	return true, nil
}

// Material gives what is signed with now, nil for nothing, and a channel that is closed when it was replaced.
func (a *Authority) Material() (*Material, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.material, a.changed
}

// Roots gives what the mesh is to trust, and a channel that is closed when that may have changed.
func (a *Authority) Roots() ([]*x509.Certificate, <-chan struct{}) {
	m, changed := a.Material()
	if m == nil {
		return nil, changed
	}
	return m.Roots, changed
}

// Revoked gives the lists of revoked certificates in PEM that go with the roots, nil for none. The channel of Roots tells of others.
func (a *Authority) Revoked() []byte {
	m, _ := a.Material()
	if m == nil {
		return nil
	}
	return m.Revoked
}

// Issue signs a workload's certificate: an X.509-SVID for the ID, with the public key of the request and nothing else of it.
func (a *Authority) Issue(_ context.Context, r Request) (Issued, error) {
	if r.Signer != "" {
		return Issued{}, refuse(CauseCSR, codes.InvalidArgument, fmt.Errorf("the signer %.100q is asked for, and there is only this authority", r.Signer))
	}
	if r.ID.Path() == "" {
		return Issued{}, refuse(CauseCSR, codes.InvalidArgument, errors.New("no certificate for an identity without a path"))
	}
	request, err := parseRequest(r.CSR)
	if err != nil {
		return Issued{}, refuse(CauseCSR, codes.InvalidArgument, err)
	}
	lifetime, err := a.lifetimes.of(r.Lifetime)
	if err != nil {
		return Issued{}, refuse(CauseTTL, codes.InvalidArgument, err)
	}
	return a.sign(request.PublicKey, leafTemplate(r.ID), lifetime)
}

// IssueServer signs a certificate of the control plane itself, which is known by the names of its Service.
func (a *Authority) IssueServer(key crypto.PublicKey, names []string, addresses []net.IP, lifetime time.Duration) (Issued, error) {
	return a.sign(key, &x509.Certificate{
		DNSNames: names, IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, lifetime)
}

// leafTemplate is what makes a certificate an X.509-SVID. It has no subject, so the name in it is critical.
func leafTemplate(id spiffe.ID) *x509.Certificate {
	return &x509.Certificate{
		URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign fills in what all certificates have. One that would outlive what it leads to ends with that.
func (a *Authority) sign(key crypto.PublicKey, template *x509.Certificate, lifetime time.Duration) (Issued, error) {
	m, _ := a.Material()
	if m == nil {
		return Issued{}, refuse(CauseNotReady, codes.Unavailable, errors.New("the authority has no certificate yet"))
	}
	now := a.now()
	if !now.Before(m.NotAfter) {
		return Issued{}, refuse(CauseNotReady, codes.Unavailable, fmt.Errorf("the authority's own certificate, or one above it, ended at %v", m.NotAfter))
	}
	var err error
	if template.SerialNumber, err = newSerial(a.random); err != nil {
		return Issued{}, refuse(CauseSigning, codes.Internal, err)
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(lifetime)
	if template.NotAfter.After(m.NotAfter) {
		template.NotAfter = m.NotAfter
	}
	der, err := x509.CreateCertificate(a.random, template, m.Certificate, key, m.Key)
	if err != nil {
		return Issued{}, refuse(CauseSigning, codes.Internal, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Issued{}, refuse(CauseSigning, codes.Internal, err)
	}
	return Issued{Chain: append([]*x509.Certificate{leaf}, m.Intermediates...), Roots: m.Roots}, nil
}

// newSerial makes a serial number: 127 random bits, so positive and of at most 20 bytes (RFC 5280, 4.1.2.2).
func newSerial(random io.Reader) (*big.Int, error) {
	n, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
