package ca

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/url"
	"time"
)

// SelfSigned generates self-signed roots.
type SelfSigned struct {
	// TrustDomain is the organization in the root's subject and the host of its SPIFFE ID.
	TrustDomain string
	// Lifetime is the lifetime of the root (CITADEL_SELF_SIGNED_CA_CERT_TTL, default ten years).
	Lifetime time.Duration
	KeyType  KeyType
}

// NewRoot returns the files of a root with a new key, valid from shortly before now (backdate)
// until s.Lifetime after now.
func (s SelfSigned) NewRoot(random io.Reader, now time.Time) (Files, error) {
	key, err := s.KeyType.GenerateKey(random)
	if err != nil {
		return Files{}, err
	}
	return s.signRoot(random, now, key)
}

// RenewRoot returns the files of a root with the key, subject, SPIFFE ID and key ID of old, valid
// until s.Lifetime after now. Clients that trust the old root accept certificates signed with the
// new one, because the key is equal. So a renewal needs no period in which both roots are trusted.
func (s SelfSigned) RenewRoot(random io.Reader, now time.Time, old *Material) (Files, error) {
	return s.signRoot(random, now, old.Key, func(c *x509.Certificate) {
		c.Subject, c.URIs, c.SubjectKeyId = old.Certificate.Subject, old.Certificate.URIs, old.Certificate.SubjectKeyId
	})
}

// signRoot returns the files of a root of s.TrustDomain that is signed with its own key.
// Certificate and Roots are both this root. changes edit the template before it is signed. The root
// is valid until s.Lifetime after now, and slightly backdated.
func (s SelfSigned) signRoot(
	random io.Reader,
	now time.Time,
	key crypto.Signer,
	changes ...func(*x509.Certificate),
) (Files, error) {
	serial, err := newSerial(random)
	if err != nil {
		return Files{}, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{s.TrustDomain}},
		URIs:      []*url.URL{{Scheme: "spiffe", Host: s.TrustDomain}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(s.Lifetime),
		IsCA: true, BasicConstraintsValid: true,
		// If there are revocation lists, Envoy rejects a root without the usage CRLSign.
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	for _, change := range changes {
		change(c)
	}
	der, err := x509.CreateCertificate(random, c, c, key.Public(), key)
	if err != nil {
		return Files{}, fmt.Errorf("sign a root: %w", err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return Files{}, fmt.Errorf("sign a root: %w", err)
	}
	inPEM, err := EncodeKey(key)
	if err != nil {
		return Files{}, err
	}
	certificate := EncodeCertificates(root)
	return Files{Certificate: certificate, Key: inPEM, Roots: certificate}, nil
}
