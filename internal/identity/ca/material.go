package ca

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Files are an authority's certificates and key in PEM, as people write them.
type Files struct {
	// Certificate is the one that signs, Key its private key.
	Certificate, Key []byte
	// Chain is what leads from it to the roots, in any order; empty where a root signs. It may hold the certificate itself and roots.
	Chain []byte
	// Roots are all that the mesh is to trust; empty: the certificate that signs, if it is a root.
	Roots []byte
	// Revoked are lists of what authorities of the mesh have signed and revoked; empty for none.
	Revoked []byte
}

// Material is what an authority signs with, checked. It is immutable.
type Material struct {
	// Certificate signs with Key.
	Certificate *x509.Certificate
	Key         crypto.Signer
	// Intermediates go with every certificate that is signed: the one that signs and those above it, without the root. None
	// where a root signs.
	Intermediates []*x509.Certificate
	// Anchor is the root that they lead to, Roots all that are trusted, Anchor among them, in the order of the files.
	Anchor *x509.Certificate
	Roots  []*x509.Certificate
	// Revoked are the lists of revoked certificates in PEM, nil for none.
	Revoked []byte
	// NotAfter is when the first certificate of the chain ends.
	NotAfter time.Time
}

// Load reads and checks files. What it takes signs certificates now that whoever trusts Roots will take.
func (f Files) Load(now time.Time) (*Material, error) {
	certificates, err := ParseCertificates(f.Certificate)
	if err != nil {
		return nil, fmt.Errorf("the signing certificate: %w", err)
	}
	m := &Material{Certificate: certificates[0]}
	if m.Key, err = parseKey(f.Key); err != nil {
		return nil, fmt.Errorf("the signing key: %w", err)
	}
	if !samePublicKey(m.Key.Public(), m.Certificate.PublicKey) {
		return nil, errors.New("the signing key is not that of the signing certificate")
	}
	if err := spiffe.CheckSigner(m.Certificate); err != nil {
		return nil, err
	}
	if m.Roots, err = f.roots(certificates[0]); err != nil {
		return nil, err
	}
	if m.Revoked, err = parseRevoked(f.Revoked); err != nil {
		return nil, fmt.Errorf("the lists of revoked certificates: %w", err)
	}
	above := certificates[1:]
	if len(bytes.TrimSpace(f.Chain)) > 0 {
		chain, err := ParseCertificates(f.Chain)
		if err != nil {
			return nil, fmt.Errorf("the chain: %w", err)
		}
		above = append(above, chain...)
	}
	if err := m.climb(above, now); err != nil {
		return nil, err
	}
	return m, nil
}

func (f Files) roots(signing *x509.Certificate) ([]*x509.Certificate, error) {
	if len(bytes.TrimSpace(f.Roots)) == 0 {
		// Only for what nobody else has signed: else the mesh would come to trust an intermediate, and nothing that the root has signed besides.
		if signing.CheckSignatureFrom(signing) != nil {
			return nil, errors.New("there are no roots, and the signing certificate is none")
		}
		return []*x509.Certificate{signing}, nil
	}
	roots, err := ParseCertificates(f.Roots)
	if err != nil {
		return nil, fmt.Errorf("the roots: %w", err)
	}
	var list []*x509.Certificate
	for _, r := range roots {
		if err := spiffe.CheckSigner(r); err != nil {
			return nil, fmt.Errorf("the roots: %w", err)
		}
		if !slices.ContainsFunc(list, r.Equal) {
			list = append(list, r)
		}
	}
	return list, nil
}

// climb finds the way from the signing certificate to a root: of several the one that lasts longest, for then the chain does.
func (m *Material) climb(above []*x509.Certificate, now time.Time) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range m.Roots {
		roots.AddCert(r)
	}
	for _, c := range above {
		between.AddCert(c)
	}
	chains, err := m.Certificate.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("the signing certificate does not lead to a root: %w", err)
	}
	for _, chain := range chains {
		end := earliest(chain)
		if m.Anchor != nil && !end.After(m.NotAfter) {
			continue
		}
		m.NotAfter, m.Anchor, m.Intermediates = end, chain[len(chain)-1], chain[:len(chain)-1:len(chain)-1]
	}
	return nil
}

func earliest(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// RootsPEM gives the roots.
func (m *Material) RootsPEM() []byte { return EncodeCertificates(m.Roots...) }

// sameAs says whether two sign alike and trust the same, in whatever order.
func (m *Material) sameAs(other *Material) bool {
	return m != nil && other != nil && m.Certificate.Equal(other.Certificate) && bytes.Equal(m.Revoked, other.Revoked) && sameSet(m.Roots, other.Roots) && sameSet(m.Intermediates, other.Intermediates)
}

func sameSet(a, b []*x509.Certificate) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(c *x509.Certificate) bool { return !slices.ContainsFunc(b, c.Equal) })
}

func samePublicKey(a, b any) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}
