package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// partners: another mesh's authority is trusted by the bundle that it publishes. It is trusted for
// its own trust domain and not for ours, unless the settings name no domain.
func partners(t *testing.T, w *world) {
	partner := pki.Authority("partner")
	at := w.publish(t, fmt.Sprintf(`{"keys": [{"kty": "EC", "use": "x509-svid", "x5c": [%q]}, {"kty": "EC", "use": "jwt-svid", "kid": "k"}], "spiffe_sequence": 1}`,
		base64.StdEncoding.EncodeToString(partner.Certificate.Raw)))
	of := func(domain string) *tls.Config {
		id := &url.URL{Scheme: "spiffe", Host: domain, Path: "/ns/default/sa/client"}
		return &tls.Config{
			NextProtos:   []string{"istio-http/1.1", "istio"},
			Certificates: []tls.Certificate{partner.Issue(&x509.Certificate{URIs: []*url.URL{id}}).TLS()},
		}
	}
	expect := func(when string, config *tls.Config, want bool) {
		t.Helper()
		serving.Eventually(t, effectTime, when, func() error {
			if got, err := w.answers(t, config); got != want {
				return fmt.Errorf("answered %t: %w", got, err)
			}
			return nil
		})
	}
	w.peers(t, "STRICT")
	expect("nobody knows the partner", of("partner.mesh"), false)
	w.settle(t, "trustDomainAliases: [partner.mesh]\ncaCertificates: [{spiffeBundleUrl: '"+at+"', trustDomains: [partner.mesh]}]\n")
	expect("the partner's own", of("partner.mesh"), true)
	expect("ours, of the partner's authority", of("cluster.local"), false)
	if got := w.postSecret(t, "", "ours").Body; got != "ours" {
		t.Errorf("the mesh's own are answered %q", got)
	}
	w.settle(t, "trustDomainAliases: [partner.mesh]\ncaCertificates: [{spiffeBundleUrl: '"+at+"'}]\n")
	expect("ours, of an authority for everybody", of("cluster.local"), true)
	w.settle(t, "{}\n")
	expect("the partner is forgotten", of("partner.mesh"), false)
	w.peers(t, "PERMISSIVE")
}

// publish has a document published at the control plane's node, by TLS that it trusts, and returns its address.
func (w *world) publish(t *testing.T, document string) string {
	t.Helper()
	l, err := w.ControlPlane.Node.Listen("tcp", ":8443")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { _, _ = answer.Write([]byte(document)) }))
	_ = s.Listener.Close() // nothing was served on it
	s.Listener, s.TLS = l, &tls.Config{Certificates: []tls.Certificate{w.web.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 66, 0, 2)}}).TLS()}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return "https://10.66.0.2:8443/bundle"
}

// settle changes the mesh's settings.
func (w *world) settle(t *testing.T, text string) {
	t.Helper()
	staged := filepath.Join(w.dir, "staged.yaml")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(w.dir, settingsFile)); err != nil {
		t.Fatal(err)
	}
}
