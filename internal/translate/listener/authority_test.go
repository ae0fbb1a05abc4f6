package listener

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// authority signs the certificates of a test: for servers of example.com, and for clients.
type authority struct{ *pki.Pair }

func newAuthority(name string) *authority { return &authority{pki.Authority(name)} }

func (a *authority) issue() *pki.Pair {
	return a.Issue(&x509.Certificate{DNSNames: []string{"example.com"}})
}

// serves returns the Secret of a server's certificate.
func (a *authority) serves() *tlsv3.Secret {
	p := a.issue()
	return &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(p.CertificatePEM()), PrivateKey: inline(p.KeyPEM()),
	}}}
}

// isTrusted returns the Secret that trusts the authority.
func (a *authority) isTrusted() *tlsv3.Secret {
	return &tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inline(a.CertificatePEM()),
	}}}
}

func inline(text []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
}

// client returns the TLS settings of a caller: "anybody" without a certificate, a "client" with a
// trusted certificate, or a "stranger" with an untrusted one.
func (a *authority) client(who string) *tls.Config {
	c := &tls.Config{RootCAs: a.Pool(), ServerName: "example.com", NextProtos: []string{"http/1.1"}}
	signer := a
	switch who {
	case "anybody":
		return c
	case "stranger":
		signer = newAuthority("stranger")
	case "proxy":
		c.Certificates = []tls.Certificate{a.identity("cluster.local").TLS()}
		return c
	case "foreigner":
		c.Certificates = []tls.Certificate{a.identity("elsewhere").TLS()}
		return c
	}
	c.Certificates = []tls.Certificate{signer.issue().TLS()}
	return c
}

// identity returns a certificate of a workload in a trust domain.
func (a *authority) identity(domain string) *pki.Pair {
	return a.Issue(&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: domain, Path: "/ns/default/sa/client"}}})
}

// peer returns the TLS of another proxy, which offers these protocols.
func (a *authority) peer(who string, protocols ...string) *tls.Config {
	c := a.client(who)
	c.NextProtos = protocols
	return c
}
