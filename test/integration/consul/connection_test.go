package consul

import (
	"os"
	"path/filepath"
	"testing"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestTLS reads a server that requires client certificates, and whose certificate has another name
// than its address. The files of the client certificate are replaced.
func TestTLS(t *testing.T) {
	consul.Require(t)
	certificates := pki.NewFiles(t, "server.dc1.consul")
	s := consul.Start(t, consul.Options{TLS: certificates})
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	stranger := pki.Authority("stranger")
	if err := stranger.WriteFiles(cert, key); err != nil {
		t.Fatal(err)
	}
	f := follow(t, s, func(o *registry.Settings) {
		o.CAFile, o.ServerName, o.CertFile, o.KeyFile = certificates.CAFile, certificates.ServerName, cert, key
	})
	f.awaitProblem("Consul cannot be read")
	certificates.IssueClient(t, cert, key)
	f.await("web: 192.0.2.1")
	f.awaitProblem("")
	s.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	f.await("web: 192.0.2.1 192.0.2.2")
	unchanged := f.mark()
	s.Kill()
	f.awaitProblem("Consul cannot be read")
	s.Launch()
	f.awaitProblem("")
	unchanged()
}

// TestTLSRefused connects to a server whose certificate has another name, or another root, than the
// settings require. Nothing is read.
func TestTLSRefused(t *testing.T) {
	consul.Require(t)
	certificates := pki.NewFiles(t, "server.dc1.consul")
	s := consul.Start(t, consul.Options{TLS: certificates})
	s.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	otherCA := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(otherCA, pki.Authority("other").CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for problem, edit := range map[string]func(*registry.Settings){
		"x509: cannot validate certificate for 127.0.0.1": func(o *registry.Settings) { o.ServerName = "" },
		"x509: certificate is valid for":                  func(o *registry.Settings) { o.ServerName = "other.dc1.consul" },
		"x509: certificate signed by unknown authority":   func(o *registry.Settings) { o.CAFile = otherCA },
	} {
		f := follow(t, s, func(o *registry.Settings) {
			o.CAFile, o.ServerName = certificates.CAFile, certificates.ServerName
			o.CertFile, o.KeyFile = certificates.CertFile, certificates.KeyFile
			edit(o)
		})
		f.awaitProblem(problem)
		f.await("not synced")
	}
}

// TestDatacenter reads the services of another datacenter than that of the queried server.
func TestDatacenter(t *testing.T) {
	consul.Require(t)
	east := consul.Start(t, consul.Options{Datacenter: "east"})
	west := consul.Start(t, consul.Options{Datacenter: "west", WAN: east})
	east.Register("web", "web-1", "192.0.2.1", 8080, "passing", nil)
	west.Register("web", "web-2", "192.0.2.2", 8080, "passing", nil)
	f := follow(t, east, func(o *registry.Settings) { o.Datacenter = "west" })
	f.await("web: 192.0.2.2")
	west.Register("web", "web-3", "192.0.2.3", 8080, "passing", nil)
	f.await("web: 192.0.2.2 192.0.2.3")
	unchanged := f.mark()
	west.Kill()
	f.awaitProblem("cannot be read")
	west.Launch()
	f.awaitProblem("")
	unchanged()
	west.Deregister("web-2")
	f.await("web: 192.0.2.3")
}
