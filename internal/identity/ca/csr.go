package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxRequestBytes is the maximum size of a certificate request. One for an RSA key of 8192 bits has
// 3 KB.
const MaxRequestBytes = 64 << 10

// parseCSR parses a PKCS #10 certificate request in PEM from an untrusted client. It returns an
// error unless text is one such PEM block of at most MaxRequestBytes. It also refuses keys that
// checkPublicKey refuses, and invalid signatures. The signature proves that the client has the
// private key; no other content is trusted.
func parseCSR(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > MaxRequestBytes {
		return nil, fmt.Errorf("the certificate request has %d bytes, more than %d", len(text), MaxRequestBytes)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("no certificate request in PEM")
	case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return nil, fmt.Errorf("unexpected PEM block %.40q, want a certificate request", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("trailing data after the certificate request")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate request: %w", err)
	}
	// The key is checked before the signature: verifying with an oversized key would be expensive.
	if err := checkPublicKey(r.PublicKey); err != nil {
		return nil, fmt.Errorf("the certificate request is for %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	return r, nil
}
