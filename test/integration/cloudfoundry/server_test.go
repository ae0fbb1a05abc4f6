package cloudfoundry

import (
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
		time.Sleep(4 * interval) // nothing must change, so there is no event to wait for
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
	files, stranger := pki.NewFiles(t, "127.0.0.1"), pki.NewFiles(t, "127.0.0.1")
	s := nats.Start(t, nats.Options{User: "router", Password: "pass:word", TLS: files})
	s.StartEmitter(interval/2).Register("web", instanceOf("web.test", "10.0.0.1"))
	write("roots.pem", string(stranger.CA.CertificatePEM()))
	write("credentials", "router:wrong")
	f := follow(t, s, func(o *cloudfoundry.Settings) {
		o.CAFile, o.CertFile, o.KeyFile, o.CredentialsFile = in("roots.pem"), in("client.pem"), in("client-key.pem"), in("credentials")
	})
	f.awaitFailure("certificate signed by unknown authority")
	write("roots.pem", string(files.CA.CertificatePEM()))
	f.awaitFailure("--cloudFoundryCertFile: open ")
	stranger.IssueClient(t, in("client.pem"), in("client-key.pem"))
	f.awaitFailure("remote error: tls")
	files.IssueClient(t, in("client.pem"), in("client-key.pem"))
	f.awaitFailure("Authorization Violation")
	write("credentials", "router:pass:word\n")
	f.await("web.test: 10.0.0.1:80")
	f.awaitFailure("")
}
