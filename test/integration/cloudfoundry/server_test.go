package cloudfoundry

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/test/support/nats"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestServerFails kills the server for longer than routes live, and starts it again. A server stores
// nothing, so it returns empty.
func TestServerFails(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	e.Register("web-1", instanceOf("web.test", "10.0.0.1"))
	e.Register("web-2", instanceOf("web.test", "10.0.0.2"))
	f := follow(t, s, nil)
	f.await("web.test: 10.0.0.1:80 10.0.0.2:80")
	for range 2 {
		s.Kill()
		f.awaitFailure("NATS")
		time.Sleep(4 * interval) // nothing is to happen, so there is no event
		f.requireNoRemoval()
		s.Launch()
		f.awaitFailure("")
	}
	e.Register("web-3", instanceOf("web.test", "10.0.0.3"))
	f.await("web.test: 10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
	f.requireNoRemoval()
	e.Unregister("web-2")
	f.await("web.test: 10.0.0.1:80 10.0.0.3:80")
}

// TestUnregisteredWhileServerIsDown loses an unregistration. The route expires after the server returned.
func TestUnregisteredWhileServerIsDown(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	e.Register("web-1", instanceOf("web.test", "10.0.0.1"))
	e.Register("web-2", instanceOf("web.test", "10.0.0.2"))
	f := follow(t, s, nil)
	f.await("web.test: 10.0.0.1:80 10.0.0.2:80")
	s.Kill()
	f.awaitFailure("NATS")
	e.Forget("web-1")
	s.Launch()
	f.await("web.test: 10.0.0.2:80")
}

// TestServerHangs stops the server's process: its connection stays open and nothing arrives.
func TestServerHangs(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	e.Register("web-1", instanceOf("web.test", "10.0.0.1"))
	f := follow(t, s, nil)
	f.await("web.test: 10.0.0.1:80")
	s.Pause()
	f.awaitFailure("NATS")
	f.requireNoRemoval()
	s.Resume()
	f.awaitFailure("")
	e.Register("web-2", instanceOf("web.test", "10.0.0.2"))
	f.await("web.test: 10.0.0.1:80 10.0.0.2:80")
	f.requireNoRemoval()
}

// TestSeveralServers names a server that does not run and one that does.
func TestSeveralServers(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	s.StartEmitter(interval/2).Register("web", instanceOf("web.test", "10.0.0.1"))
	f := follow(t, s, func(o *cloudfoundry.Settings) {
		o.Servers = []string{"nats://" + serving.FreeAddress(t), s.URL, "nats://" + serving.FreeAddress(t)}
	})
	f.await("web.test: 10.0.0.1:80")
}

// TestSecured connects to a server that requires client certificates and a password. The files are
// wrong first, and are replaced while the registry runs.
func TestSecured(t *testing.T) {
	nats.Require(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authority, stranger := pki.Authority("nats"), pki.Authority("stranger")
	server := authority.Issue(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err := server.WriteFiles(in("server.pem"), in("server-key.pem")); err != nil {
		t.Fatal(err)
	}
	write("ca.pem", string(authority.CertificatePEM()))
	s := nats.Start(t, nats.Options{
		User: "router", Password: "pass:word", CAFile: in("ca.pem"), CertFile: in("server.pem"), KeyFile: in("server-key.pem"),
	})
	s.StartEmitter(interval/2).Register("web", instanceOf("web.test", "10.0.0.1"))
	client := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, DNSNames: []string{"client"}}
	write("roots.pem", string(stranger.CertificatePEM()))
	write("credentials", "router:wrong")
	if err := stranger.Issue(client).WriteFiles(in("client.pem"), in("client-key.pem")); err != nil {
		t.Fatal(err)
	}
	f := follow(t, s, func(o *cloudfoundry.Settings) {
		o.CAFile, o.CertFile, o.KeyFile, o.CredentialsFile = in("roots.pem"), in("client.pem"), in("client-key.pem"), in("credentials")
	})
	f.awaitFailure("certificate signed by unknown authority")
	write("roots.pem", string(authority.CertificatePEM()))
	f.awaitFailure("remote error: tls")
	if err := authority.Issue(client).WriteFiles(in("client.pem"), in("client-key.pem")); err != nil {
		t.Fatal(err)
	}
	f.awaitFailure("Authorization Violation")
	write("credentials", "router:pass:word\n")
	f.await("web.test: 10.0.0.1:80")
	f.awaitFailure("")
}
