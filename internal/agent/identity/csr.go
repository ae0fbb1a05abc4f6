package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
)

// KeyOptions select the type and encoding of private keys.
type KeyOptions struct {
	// RSABits is the size of RSA keys. If 0, elliptic curve keys are generated.
	RSABits int
	// Curve is P256 or P384.
	Curve string
	// PKCS8 encodes keys in PKCS #8 instead of the older format of their type.
	PKCS8 bool
}

// newKey returns a new private key: of RSA if RSABits is set, otherwise of the elliptic curve,
// which is P-256 unless Curve is P384.
func (o KeyOptions) newKey() (crypto.Signer, error) {
	if o.RSABits > 0 {
		return rsa.GenerateKey(rand.Reader, o.RSABits)
	}
	curve := elliptic.P256()
	if o.Curve == "P384" {
		curve = elliptic.P384()
	}
	return ecdsa.GenerateKey(curve, rand.Reader)
}

// encodePEM encodes a private key in PEM: RSA keys in PKCS #1, elliptic curve keys in SEC 1. With
// o.PKCS8, and for other types of keys, it uses PKCS #8.
func (o KeyOptions) encodePEM(key crypto.Signer) ([]byte, error) {
	var kind string
	var der []byte
	var err error
	switch key := key.(type) {
	case *rsa.PrivateKey:
		kind, der = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)
	case *ecdsa.PrivateKey:
		kind = "EC PRIVATE KEY"
		der, err = x509.MarshalECPrivateKey(key)
	}
	if o.PKCS8 || kind == "" {
		kind = "PRIVATE KEY"
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), nil
}

// newCSR returns a certificate signing request in PEM, signed with key, whose only name is the URI
// name, a SPIFFE ID. That is only a proposal: the authority decides the identity by the workload's
// credentials.
func newCSR(key crypto.Signer, name *url.URL) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{name}}, key)
	if err != nil {
		return nil, fmt.Errorf("create certificate signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// SPIFFEID returns the SPIFFE ID of a service account in Istio's form,
// spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT. The parts are not validated.
func SPIFFEID(trustDomain, namespace, account string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/ns/" + namespace + "/sa/" + account}
}
