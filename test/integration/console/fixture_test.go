package console

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// fixture is a control plane that reads the Bookinfo mesh from a folder, with its sidecars and a
// browser.
type fixture struct {
	*browser
	plane   *controlplane.Plane
	dir     string
	proxies map[string]*sidecar.Proxy
}

// newFixture starts all of them, with a certificate authority. Rules are names of rules of Bookinfo.
func newFixture(t *testing.T, rules ...string) *fixture {
	t.Helper()
	return newFixtureWith(t, func(*discovery.Options) {}, rules...)
}

// newFixtureWith is newFixture with other options of the control plane.
func newFixtureWith(t *testing.T, change func(*discovery.Options), rules ...string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), proxies: map[string]*sidecar.Proxy{}}
	if err := os.CopyFS(f.dir, bookinfo.Platform()); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		text, err := bookinfo.Networking(rule)
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, rule+".yaml", text)
	}
	o := controlplane.Options(t)
	o.ConfigDir, o.PodName = f.dir, "istiod-1"
	o.Authority.Dir, o.SecureGRPCAddr = t.TempDir(), serving.FreeAddress(t)
	change(&o)
	f.plane = controlplane.Start(t, o)
	f.browser = newBrowser(t, "http://"+f.plane.HTTP)
	for name, ip := range map[string]string{
		"client": "10.66.1.10", "productpage-v1": "10.66.1.11", "details-v1": "10.66.1.21",
		"reviews-v1": "10.66.1.31", "reviews-v2": "10.66.1.32", "reviews-v3": "10.66.1.33", "ratings-v1": "10.66.1.41",
	} {
		f.proxies[name] = f.connect(t, name, ip)
	}
	return f
}

// connect connects a sidecar that has its routes.
func (f *fixture) connect(t *testing.T, name, ip string) *sidecar.Proxy {
	t.Helper()
	p := sidecar.Connect(t, f.plane.GRPC, sidecar.Node(name, "default", ip, map[string]any{"ISTIO_VERSION": "1.31.0"}))
	serving.Eventually(t, patience, name+" has its routes", func() error {
		if p.VersionOf(api.RouteType, "9080") == "" {
			return fmt.Errorf("it has %v", p.ResourceNames(api.RouteType))
		}
		return nil
	})
	return p
}

// write replaces a file of the folder in one step, as editors do.
func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// rule returns the text of a rule of Bookinfo.
func rule(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(os.DirFS("../../../samples/bookinfo"), bookinfo.RulePath(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// gatewayWithCertificate returns a Gateway and its Secret, whose certificate expires in five days.
func gatewayWithCertificate() string {
	pair := pki.Authority("Public CA").Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "bookinfo.example"}, DNSNames: []string{"bookinfo.example"},
		NotBefore: time.Now().Add(-85 * 24 * time.Hour), NotAfter: time.Now().Add(5*24*time.Hour + time.Minute),
	})
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: bookinfo, namespace: default}
spec:
  selector: {app: gateway}
  servers:
  - port: {number: 443, name: https, protocol: HTTPS}
    hosts: [bookinfo.example]
    tls: {mode: SIMPLE, credentialName: bookinfo-cert}
---
apiVersion: v1
kind: Secret
metadata: {name: bookinfo-cert, namespace: default}
type: kubernetes.io/tls
data:
  tls.crt: %s
  tls.key: %s
`, base64.StdEncoding.EncodeToString(pair.CertificatePEM()), base64.StdEncoding.EncodeToString(pair.KeyPEM()))
}
