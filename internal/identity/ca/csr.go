package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxRequestBytes bounds a request for a certificate. That of an RSA key of 8192 bits has 3 KB.
const MaxRequestBytes = 64 << 10

// parseRequest reads a request for a certificate (PKCS #10, in PEM) that comes from nobody knows whom, and holds it to what is signed for.
// That the caller has the private key is proved by its signature; what else is in it proves nothing.
func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > MaxRequestBytes {
		return nil, fmt.Errorf("a certificate request of %d bytes: more than %d", len(text), MaxRequestBytes)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("no certificate request in PEM")
	case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return nil, fmt.Errorf("a %.40q where a certificate request belongs", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("more behind the certificate request")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate request: %w", err)
	}
	// The key comes first: what a signature of a monstrous one costs to check is the client's choice.
	if err := checkPublicKey(r.PublicKey); err != nil {
		return nil, fmt.Errorf("the certificate request is for %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	return r, nil
}
