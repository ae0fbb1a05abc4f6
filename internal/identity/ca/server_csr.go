package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
)

// NewServerRequest returns a PEM-encoded certificate signing request for a server certificate with
// these hosts: DNS names, and IP addresses.
func NewServerRequest(random io.Reader, key crypto.Signer, hosts []string) ([]byte, error) {
	template := &x509.CertificateRequest{}
	template.DNSNames, template.IPAddresses = SplitHosts(hosts)
	der, err := x509.CreateCertificateRequest(random, template, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// SplitHosts splits hosts into DNS names and IP addresses, each in their order.
func SplitHosts(hosts []string) (names []string, addresses []net.IP) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, host)
		}
	}
	return names, addresses
}
