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

// SelfSigned is how a root is made by the control plane itself.
type SelfSigned struct {
	// TrustDomain is its organization, and its SPIFFE ID.
	TrustDomain string
	// Lifetime of the root. CITADEL_SELF_SIGNED_CA_CERT_TTL, ten years.
	Lifetime time.Duration
	KeyType  KeyType
}

// Make makes a root with a new key.
func (s SelfSigned) Make(random io.Reader, now time.Time) (Files, error) {
	key, err := s.KeyType.New(random)
	if err != nil {
		return Files{}, err
	}
	return s.sign(random, now, key)
}

// Renew makes a root with the key and the name of one that there is. Whoever trusts the old one takes certificates that are
// signed from now on, for they are signed with the same key; so a renewal needs no time in which both are trusted.
func (s SelfSigned) Renew(random io.Reader, now time.Time, old *Material) (Files, error) {
	return s.sign(random, now, old.Key, func(c *x509.Certificate) {
		c.Subject, c.URIs, c.SubjectKeyId = old.Certificate.Subject, old.Certificate.URIs, old.Certificate.SubjectKeyId
	})
}

func (s SelfSigned) sign(random io.Reader, now time.Time, key crypto.Signer, changes ...func(*x509.Certificate)) (Files, error) {
	serial, err := newSerial(random)
	if err != nil {
		return Files{}, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{s.TrustDomain}},
		URIs:      []*url.URL{{Scheme: "spiffe", Host: s.TrustDomain}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(s.Lifetime),
		IsCA: true, BasicConstraintsValid: true,
		// Envoy refuses a root that may sign certificates and has no right to sign revocation lists, where there are any.
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
