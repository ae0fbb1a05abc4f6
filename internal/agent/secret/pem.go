package secret

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// ParseKeyPair returns a Secret of a certificate chain and the private key of its first
// certificate, both in PEM, which it retains. The Secret expires with that certificate. It fails if
// they do not match.
func ParseKeyPair(chain, key []byte) (Secret, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return Secret{}, err
	}
	return Secret{Chain: chain, Key: key, Expires: pair.Leaf.NotAfter}, nil
}

// ParseRoots returns a Secret of root certificates in PEM. It fails if there is none or one is
// invalid. The Secret expires with the first root that does.
func ParseRoots(roots []byte) (Secret, error) {
	list, err := ParseCertificates(roots)
	if err != nil {
		return Secret{}, err
	}
	if len(list) == 0 {
		return Secret{}, errors.New("no certificate in PEM data")
	}
	var first time.Time
	for _, c := range list {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return Secret{Roots: roots, Expires: first}, nil
}

// ParseCertificates returns the certificates in PEM data, perhaps none. Other blocks and the text
// between blocks are skipped; a certificate that cannot be parsed is an error.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return list, nil
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
		}
		list = append(list, c)
	}
}

// JoinCertificates concatenates certificates in PEM, in the order of their first occurrence.
// Duplicates are dropped. A certificate that cannot be parsed is an error.
func JoinCertificates(texts ...[]byte) ([]byte, error) {
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, text := range texts {
		list, err := ParseCertificates(text)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				out.Write(EncodeCertificate(c))
			}
		}
	}
	return out.Bytes(), nil
}

// EncodeCertificate returns a certificate in PEM.
func EncodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// validateCRLs returns an error unless text consists of certificate revocation lists in PEM. Empty
// text is valid.
func validateCRLs(text []byte) error {
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "X509 CRL" {
			return errors.New("not a certificate revocation list in PEM (X509 CRL)")
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			return err
		}
	}
	return nil
}
