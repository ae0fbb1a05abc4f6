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

// Files are an authority's PEM-encoded files, not yet validated.
type Files struct {
	// Certificate is the signing certificate, Key its private key.
	Certificate, Key []byte
	// Chain are the intermediates between Certificate and the roots, in any order. It may also
	// contain Certificate and roots. It is empty if Certificate is a root.
	Chain []byte
	// Roots are the trust anchors of the mesh. If empty, Certificate must be a root and is the only
	// one.
	Roots []byte
	// RevocationLists are the CRLs of the mesh's authorities; empty if there are none.
	RevocationLists []byte
}

// Material is the validated signing certificate of an authority with its key and chain. It is
// immutable.
type Material struct {
	// Certificate is the signing certificate, Key its private key.
	Certificate *x509.Certificate
	Key         crypto.Signer
	// Intermediates are appended to every issued certificate: the signing certificate and its
	// intermediates, without the root. They are empty if a root signs.
	Intermediates []*x509.Certificate
	// Anchor is the root of the chain. Roots are all trust anchors including Anchor, in the order
	// of the file.
	Anchor *x509.Certificate
	Roots  []*x509.Certificate
	// RevocationLists are the CRLs in PEM, or nil.
	RevocationLists []byte
	// NotAfter is the earliest expiry of the chain, including the root.
	NotAfter time.Time
}

// Parse returns the validated Material at the time now. It returns an error if a file is invalid,
// the key does not match the certificate, a certificate may not sign, or no chain verifies up to
// one of Roots. The signing certificate may be followed by intermediates; the certificates of Chain
// come after them.
func (f Files) Parse(now time.Time) (*Material, error) {
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
	if m.Roots, err = f.parseRoots(certificates[0]); err != nil {
		return nil, err
	}
	if m.RevocationLists, err = parseRevocationLists(f.RevocationLists); err != nil {
		return nil, fmt.Errorf("the lists of revoked certificates: %w", err)
	}
	intermediates := certificates[1:]
	if len(bytes.TrimSpace(f.Chain)) > 0 {
		chain, err := ParseCertificates(f.Chain)
		if err != nil {
			return nil, fmt.Errorf("the chain: %w", err)
		}
		intermediates = append(intermediates, chain...)
	}
	if err := m.selectChain(intermediates, now); err != nil {
		return nil, err
	}
	return m, nil
}

// parseRoots returns the distinct roots, or an error if any is invalid or may not sign. Without a
// file of roots it returns the signing certificate if that is self-signed, and otherwise an error.
func (f Files) parseRoots(signing *x509.Certificate) ([]*x509.Certificate, error) {
	if len(bytes.TrimSpace(f.Roots)) == 0 {
		// An intermediate must not become a trust anchor: the mesh would trust it but nothing else
		// that the root signed.
		if signing.CheckSignatureFrom(signing) != nil {
			return nil, errors.New("there is no root certificate, and the signing certificate is not self-signed")
		}
		return []*x509.Certificate{signing}, nil
	}
	roots, err := ParseCertificates(f.Roots)
	if err != nil {
		return nil, fmt.Errorf("the roots: %w", err)
	}
	if roots, err = distinctSigners(roots); err != nil {
		return nil, fmt.Errorf("the roots: %w", err)
	}
	return roots, nil
}

// distinctSigners returns the certificates of list without duplicates, in the same order. It
// returns an error if one of them may not sign.
func distinctSigners(list []*x509.Certificate) ([]*x509.Certificate, error) {
	var distinct []*x509.Certificate
	for _, c := range list {
		if err := spiffe.CheckSigner(c); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(distinct, c.Equal) {
			distinct = append(distinct, c)
		}
	}
	return distinct, nil
}

// selectChain verifies the signing certificate with the intermediates and sets Anchor,
// Intermediates and NotAfter. Of several valid chains it selects the one with the latest expiry. It
// returns an error if none is valid.
func (m *Material) selectChain(intermediates []*x509.Certificate, now time.Time) error {
	roots, pool := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range m.Roots {
		roots.AddCert(r)
	}
	for _, c := range intermediates {
		pool.AddCert(c)
	}
	chains, err := m.Certificate.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("no valid chain from the signing certificate to a root: %w", err)
	}
	for _, chain := range chains {
		end := earliestExpiry(chain)
		if m.Anchor != nil && !end.After(m.NotAfter) {
			continue
		}
		m.NotAfter, m.Anchor, m.Intermediates = end, chain[len(chain)-1], chain[:len(chain)-1:len(chain)-1]
	}
	return nil
}

// earliestExpiry returns the first NotAfter of the certificates in a chain, which must not be
// empty.
func earliestExpiry(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// isEqual reports whether both have the same certificate, the same bytes of revocation lists, and
// the same roots and intermediates in any order. It returns false if either is nil.
func (m *Material) isEqual(other *Material) bool {
	return m != nil && other != nil && m.Certificate.Equal(other.Certificate) &&
		bytes.Equal(m.RevocationLists, other.RevocationLists) &&
		sameSet(m.Roots, other.Roots) &&
		sameSet(m.Intermediates, other.Intermediates)
}

// sameSet reports whether a and b contain the same certificates. Neither may contain duplicates.
func sameSet(a, b []*x509.Certificate) bool {
	return len(a) == len(b) && isSubset(a, b)
}

// isSubset reports whether b contains all certificates of a.
func isSubset(a, b []*x509.Certificate) bool {
	return !slices.ContainsFunc(a, func(c *x509.Certificate) bool { return !slices.ContainsFunc(b, c.Equal) })
}

// samePublicKey reports whether two public keys are equal. It returns false for unknown types.
func samePublicKey(a, b any) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}
