package discovery

import (
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestCertificatesOfAnotherPKI: a control plane has an authority, but its serving certificate and
// the workloads' certificates are files of another PKI. It accepts certificates of both.
func TestCertificatesOfAnotherPKI(t *testing.T) {
	other, stranger, dir := pki.Authority("other"), pki.Authority("stranger"), t.TempDir()
	server := other.Issue(&x509.Certificate{DNSNames: []string{"istiod.istio-system.svc"}})
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l := startLaptop(t, func(o *Options) {
		o.TLSCertFile, o.TLSKeyFile = file("cert.pem", server.CertificatePEM()), file("key.pem", server.KeyPEM())
		o.CACertFile = file("root.pem", other.CertificatePEM())
		o.Authority.CertProvider = "another-pki"
		if err := o.Validate(); err != nil {
			t.Errorf("a certificate provider with another name is refused: %v", err)
		}
	})
	l.trust = other.Pool()
	web := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/shop/sa/web"}}}
	n := node("shop", map[string]any{"SERVICE_ACCOUNT": "web", "NAMESPACE": "shop"})
	for _, c := range []struct {
		name    string
		issuer  *pki.Pair
		refused bool
	}{{"of the other PKI", other, false}, {"of a stranger", stranger, true}} {
		own := c.issuer.Issue(web).TLS()
		if _, err := l.ask(t.Context(), &own, n, api.ClusterType); (err != nil) != c.refused {
			t.Errorf("a client with a certificate %s: error %v, want an error: %v", c.name, err, c.refused)
		}
	}
}
