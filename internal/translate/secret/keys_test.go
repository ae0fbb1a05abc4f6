package secret

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// authority signs the certificates of a test.
type authority struct {
	*pki.Pair
	pem string
}

var (
	longAgo = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	farOff  = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newKeyOn(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(name string) *authority {
	a := &authority{
		pki.SelfSigned(&x509.Certificate{
			Subject:   pkix.Name{CommonName: name},
			NotBefore: longAgo,
			NotAfter:  farOff,
			IsCA:      true,
		}),
		"",
	}
	a.pem = string(a.CertificatePEM())
	return a
}

// leaf returns a certificate for localhost, in PEM.
func (a *authority) leaf(key crypto.Signer, notBefore, notAfter time.Time) string {
	return string(a.IssueTo(key, &x509.Certificate{
		Subject: pkix.Name{
			CommonName: "leaf",
		}, DNSNames: []string{"localhost"}, NotBefore: notBefore, NotAfter: notAfter,
	}).CertificatePEM())
}

func pkcs8(key crypto.Signer) string { return string((&pki.Pair{Key: key}).KeyPEM()) }

// sec1 is how openssl writes an EC key: with the parameters of the curve before it.
func sec1(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("EC PARAMETERS", []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7}) + pemOf("EC PRIVATE KEY", der)
}

func pkcs1(key *rsa.PrivateKey) string {
	return pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
