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

// Pair makes a Secret of a certificate chain and the key of its first certificate, and refuses what does not fit.
func Pair(chain, key []byte) (Secret, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return Secret{}, err
	}
	return Secret{Chain: chain, Key: key, Expires: pair.Leaf.NotAfter}, nil
}

// Trust makes a Secret of roots, of which there must be one at least.
func Trust(roots []byte) (Secret, error) {
	list, err := Certificates(roots)
	if err != nil {
		return Secret{}, err
	}
	if len(list) == 0 {
		return Secret{}, errors.New("no certificate in it")
	}
	var first time.Time
	for _, c := range list {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return Secret{Roots: roots, Expires: first}, nil
}

// Certificates reads certificates in PEM. What is between them is passed over, as everybody does who reads such files.
func Certificates(text []byte) ([]*x509.Certificate, error) {
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

// Join puts certificates in PEM together, each once, in the order in which they first come.
func Join(texts ...[]byte) ([]byte, error) {
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, text := range texts {
		list, err := Certificates(text)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
			}
		}
	}
	return out.Bytes(), nil
}

// checkRevoked looks at lists of revoked certificates in PEM. None at all is well too.
func checkRevoked(text []byte) error {
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "X509 CRL" {
			return errors.New("there is something else than lists in PEM")
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			return err
		}
	}
	return nil
}
