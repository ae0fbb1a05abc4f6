package ca

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
)

// TestServerRequest: names become DNS names, and addresses IP addresses, which clients compare with
// nothing else.
func TestServerRequest(t *testing.T) {
	key, err := KeyType{}.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := NewServerRequest(rand.Reader, key, []string{"192.0.2.1", "istiod.istio-system.svc", "2001:db8::1"})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, ip := range request.IPAddresses {
		addresses = append(addresses, ip.String())
	}
	if !slices.Equal(request.DNSNames, []string{"istiod.istio-system.svc"}) ||
		!slices.Equal(addresses, []string{"192.0.2.1", "2001:db8::1"}) {
		t.Errorf("DNS names %v, addresses %v", request.DNSNames, addresses)
	}
}
