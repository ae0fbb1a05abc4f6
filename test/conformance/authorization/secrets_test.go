package authorization

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// secrets is the mesh's authority, with the secrets that Envoy gets under the names of SDS.
type secrets struct {
	root  *pki.Pair
	named map[string]*tlsv3.Secret

	mu    sync.Mutex
	certs map[string]tls.Certificate // of callers
}

func newSecrets() *secrets {
	return &secrets{root: pki.Authority("mesh"), named: map[string]*tlsv3.Secret{}, certs: map[string]tls.Certificate{}}
}

// place has a TLS context use the bootstrap's secrets: a name without a place is one of those.
func (s *secrets) place(c *tlsv3.CommonTlsContext) {
	for _, one := range c.GetTlsCertificateSdsSecretConfigs() {
		one.SdsConfig = nil
		own := s.issue("spiffe://cluster.local/ns/shop/sa/server")
		s.named[one.GetName()] = &tlsv3.Secret{Name: one.GetName(), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(own.CertificatePEM()), PrivateKey: inline(own.KeyPEM()),
		}}}
	}
	roots := []*tlsv3.SdsSecretConfig{c.GetValidationContextSdsSecretConfig()}
	if v := c.GetCombinedValidationContext(); v != nil {
		v.GetDefaultValidationContext().Crl = nil // the test revokes nothing
		roots = append(roots, v.GetValidationContextSdsSecretConfig())
	}
	for _, one := range roots {
		if one == nil {
			continue
		}
		one.SdsConfig = nil
		s.named[one.GetName()] = &tlsv3.Secret{Name: one.GetName(), Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(s.root.CertificatePEM())},
		}}
	}
}

func (s *secrets) all() (list []*tlsv3.Secret) {
	for _, one := range s.named {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *tlsv3.Secret) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}

func (s *secrets) issue(identity string) *pki.Pair {
	u, err := url.Parse(identity)
	if err != nil {
		panic(err) // of the test's own making
	}
	return s.root.Issue(&x509.Certificate{URIs: []*url.URL{u}, DNSNames: []string{"server"}})
}

// client returns the TLS of a caller.
func (s *secrets) client(t testing.TB, c *testCase) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: s.root.Pool(), ServerName: c.SNI, NextProtos: c.offers(), InsecureSkipVerify: true} // who the server is, other tests ask
	if id := c.identity(); id != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		own, ok := s.certs[id]
		if !ok {
			own = s.issue(id).TLS()
			s.certs[id] = own
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func inline(text []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
}
