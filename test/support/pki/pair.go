package pki

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"
)

// life is more than any test takes.
const life = 24 * time.Hour

// Pair is a certificate and its private key.
type Pair struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Authority returns a pair that signs certificates and revocation lists. It signs its own.
func Authority(name string) *Pair {
	return SelfSigned(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true})
}

// SelfSigned makes a certificate that signs itself: of an authority, or a self-signed one. For
// unset fields of the template see [Pair.Issue].
func SelfSigned(template *x509.Certificate) *Pair {
	key := NewKey()
	return signTemplate(template, key, func(c *x509.Certificate) (*x509.Certificate, crypto.Signer) { return c, key })
}

// Issue creates a key and a certificate for it. Defaults for unset fields of the template: a random
// serial number, validity from now, use by clients and servers, and for an authority the right to
// sign certificates and revocation lists. The template is not modified.
func (p *Pair) Issue(template *x509.Certificate) *Pair { return p.IssueTo(NewKey(), template) }

// IssueTo is Issue for a key that there is.
func (p *Pair) IssueTo(key crypto.Signer, template *x509.Certificate) *Pair {
	return signTemplate(
		template,
		key,
		func(*x509.Certificate) (*x509.Certificate, crypto.Signer) { return p.Certificate, p.Key },
	)
}

// NewKey makes a key.
func NewKey() *ecdsa.PrivateKey { return mustGet(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func signTemplate(
	template *x509.Certificate,
	key crypto.Signer,
	by func(*x509.Certificate) (*x509.Certificate, crypto.Signer),
) *Pair {
	c := *template
	if c.SerialNumber == nil {
		c.SerialNumber = mustGet(rand.Int(rand.Reader, big.NewInt(1<<62)))
	}
	now := time.Now()
	if c.NotBefore.IsZero() {
		c.NotBefore = now.Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = now.Add(life)
	}
	if c.IsCA {
		c.BasicConstraintsValid = true
		// Envoy refuses a trust anchor that may sign but has no right to sign revocation lists.
		c.KeyUsage = cmp.Or(c.KeyUsage, x509.KeyUsageCertSign|x509.KeyUsageCRLSign)
	} else {
		c.KeyUsage = cmp.Or(c.KeyUsage, x509.KeyUsageDigitalSignature)
		if c.ExtKeyUsage == nil {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		}
	}
	parent, signer := by(&c)
	der := mustGet(x509.CreateCertificate(rand.Reader, &c, parent, key.Public(), signer))
	return &Pair{Certificate: mustGet(x509.ParseCertificate(der)), Key: key}
}

// Revoke returns a revocation list, in PEM.
func (p *Pair) Revoke(serials ...*big.Int) []byte {
	now := time.Now()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(life)}
	for _, s := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: s, RevocationTime: now.Add(-time.Minute)})
	}
	return inPEM("X509 CRL", mustGet(x509.CreateRevocationList(rand.Reader, list, p.Certificate, p.Key)))
}

// Pool returns a pool with the certificate.
func (p *Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate)
	return pool
}

// TLS returns the pair as a tls.Certificate.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key}
}

// CertificatePEM returns the certificate.
func (p *Pair) CertificatePEM() []byte { return inPEM("CERTIFICATE", p.Certificate.Raw) }

// KeyPEM returns the key (PKCS #8).
func (p *Pair) KeyPEM() []byte {
	return inPEM("PRIVATE KEY", mustGet(x509.MarshalPKCS8PrivateKey(p.Key)))
}

// WriteFiles writes both in PEM. It fails as [os.WriteFile] does.
func (p *Pair) WriteFiles(certificate, key string) error {
	if err := os.WriteFile(key, p.KeyPEM(), 0o600); err != nil {
		return err
	}
	return os.WriteFile(certificate, p.CertificatePEM(), 0o600)
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func mustGet[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
