package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
)

// NewServerRequest returns a PEM-encoded certificate signing request for a server certificate with
// these DNS names.
func NewServerRequest(random io.Reader, key crypto.Signer, names []string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
