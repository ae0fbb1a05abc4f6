package listener

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// authority signs the certificates of a test: for servers of example.com, and for clients.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	root *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key, a.root = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	return a
}

// sign makes a key and a certificate for it, signed by the parent or, without one, by itself.
func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.DNSNames, template.Subject = []string{"example.com"}, pkix.Name{CommonName: template.SerialNumber.String()}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, c
}

// serves gives the Secret of a server's certificate.
func (a *authority) serves() *tlsv3.Secret {
	key, c := a.sign(&x509.Certificate{}, a.root, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inPEM("CERTIFICATE", c.Raw), PrivateKey: inPEM("PRIVATE KEY", der),
	}}}
}

// isTrusted gives the Secret that trusts the authority.
func (a *authority) isTrusted() *tlsv3.Secret {
	return &tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inPEM("CERTIFICATE", a.root.Raw),
	}}}
}

func inPEM(kind string, der []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})}}
}

// client gives the TLS of somebody who calls: "anybody" without a certificate, a "client" whose certificate is trusted, or
// a "stranger" whose is not.
func (a *authority) client(who string) *tls.Config {
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com", NextProtos: []string{"http/1.1"}}
	c.RootCAs.AddCert(a.root)
	signer := a
	switch who {
	case "anybody":
		return c
	case "stranger":
		signer = newAuthority(a.t)
	}
	key, own := a.sign(&x509.Certificate{}, signer.root, signer.key)
	c.Certificates = []tls.Certificate{{Certificate: [][]byte{own.Raw}, PrivateKey: key}}
	return c
}
