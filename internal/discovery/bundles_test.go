package discovery

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestTrustBundles: trust bundles that the mesh's settings name are fetched from servers with
// trusted certificates, with retries after failures, and their authorities are sent to agents.
// Passwords in their addresses appear in no log or page.
func TestTrustBundles(t *testing.T) {
	partner, stranger := pki.Authority("partner"), pki.Authority("stranger")
	var busy atomic.Bool
	busy.Store(true)
	bundle := func(root *pki.Pair) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if busy.Load() {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"keys": [{"use": "x509-svid", "x5c": [%q]}]}`, base64.StdEncoding.EncodeToString(root.Certificate.Raw))
		})
	}
	good, bad := httptest.NewTLSServer(bundle(partner)), httptest.NewUnstartedServer(bundle(stranger))
	unknown := pki.Authority("unknown").Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	bad.TLS = &tls.Config{Certificates: []tls.Certificate{unknown.TLS()}}
	bad.StartTLS()
	defer good.Close()
	defer bad.Close()
	trusted := filepath.Join(t.TempDir(), "extra.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWith(t, map[string]string{".mesh": fmt.Sprintf("caCertificates: [{spiffeBundleUrl: '%s'}, {spiffeBundleUrl: '%s'}]\n",
		strings.Replace(good.URL, "https://", "https://user:hidden@", 1), bad.URL)}, func(o *Options) {
		o.Issuers.RootsFile, o.Issuers.AcceptAnyCertificate = trusted, true // which applies only to token issuers
	})
	x := sidecar.Connect(t, c.grpc, sidecar.Node("web", "default", "10.0.0.1", nil))
	x.Subscribe(api.ProxyConfigType)
	trusts := func(want string) func() error {
		return func() error {
			var p meshconfig.ProxyConfig
			if there := x.Read(api.ProxyConfigType, proxyconfig.Name, &p); !there || strings.Join(p.CaCertificatesPem, "") != want {
				return fmt.Errorf("found %v: %q", there, p.CaCertificatesPem)
			}
			return nil
		}
	}
	says := func(text string) func() error {
		return func() error {
			page, err := c.get("/debug/problemz")
			if err == nil && !strings.Contains(page, text) {
				err = fmt.Errorf("the page is %s", page)
			}
			return err
		}
	}
	c.eventually("agents are sent no roots", trusts(""))
	c.eventually("the reason is reported", says("could not be fetched, its certificates are not trusted: the server returned HTTP status 503"))
	c.eventually("a server with an untrusted certificate is refused", says("could not be fetched, its certificates are not trusted: the server's certificate is not trusted"))
	busy.Store(false)
	c.eventually("the authority is trusted", trusts(string(partner.CertificatePEM())))
	if page, err := c.get("/debug/problemz"); err != nil || strings.Contains(page, "hidden") {
		t.Errorf("the password is shown: %v\n%s", err, page)
	}
	if strings.Contains(c.log.String(), "hidden") {
		t.Error("the password is in the log")
	}
}
