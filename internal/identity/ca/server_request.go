package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
)

// NewServerRequest makes a request for a certificate with DNS names, in PEM.
func NewServerRequest(random io.Reader, key crypto.Signer, names []string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
