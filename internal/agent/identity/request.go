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

// KeyOptions say which private keys are made, and how they are written.
type KeyOptions struct {
	// RSABits is the size of RSA keys; 0: keys of the Curve.
	RSABits int
	// Curve is P256 or P384.
	Curve string
	// PKCS8 writes keys in that form, rather than in the older one of their kind.
	PKCS8 bool
}

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

// encode writes a key in PEM.
func (o KeyOptions) encode(key crypto.Signer) ([]byte, error) {
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

// request makes a certificate signing request, in PEM, for the key. The name in it is what the workload takes itself for: the
// authority goes by what the workload can prove.
func request(key crypto.Signer, name *url.URL) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{name}}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// Name is the SPIFFE ID of a service account, as Istio has it.
func Name(trustDomain, namespace, account string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/ns/" + namespace + "/sa/" + account}
}
