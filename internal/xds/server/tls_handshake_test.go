package server

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// shake performs a handshake between two configurations, without gRPC. The client reads until the
// end of the connection.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		_ = raw.SetDeadline(time.Now().Add(limit)) // cannot fail on a new socket
		c := tls.Server(raw, server)
		if _, err := c.Write([]byte("x")); err != nil {
			done <- err
			return
		}
		done <- c.CloseWrite()
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		<-done
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil { // TLS 1.3 sends session tickets after the handshake
		<-done
		return tls.ConnectionState{}, err
	}
	return conn.ConnectionState(), <-done
}

// configs returns the configuration of a port, and one of a client that trusts it.
func configs(t *testing.T, settings TLS) (server, client *tls.Config) {
	t.Helper()
	dir, ca := t.TempDir(), pki.Authority("test")
	pair := serverPair(ca)
	settings.Files = CertificateFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, settings.Files.Certificate, pair.CertificatePEM())
	write(t, settings.Files.Key, pair.KeyPEM())
	server, err := settings.Config(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}}
}

// TestOldVersionsOfTLSAreRefused: clients that offer only TLS 1.0 or 1.1 are refused. A port that
// differs only in its minimum version accepts the same clients.
func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	server, client := configs(t, TLS{})
	lax := server.Clone()
	lax.MinVersion = tls.VersionTLS10
	lax.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := server.GetConfigForClient(hello)
		if err == nil {
			c.MinVersion = tls.VersionTLS10
		}
		return c, err
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		old := client.Clone()
		old.MinVersion, old.MaxVersion = version, version
		if state, err := shake(t, lax, old); err != nil || state.Version != version {
			t.Errorf("%s: the port that allows this version refused it: %v", tls.VersionName(version), err)
		}
		if _, err := shake(t, server, old); err == nil {
			t.Errorf("%s was accepted, want a refusal", tls.VersionName(version))
		}
	}
}

// sessions counts the session tickets that a server offers.
type sessions struct{ n int }

func (s *sessions) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

func (s *sessions) Put(_ string, c *tls.ClientSessionState) {
	if c != nil {
		s.n++
	}
}

// TestSessionsAreNotResumed: no session tickets are offered. A resumed session would keep the
// identity of its first handshake even if that was revoked since.
func TestSessionsAreNotResumed(t *testing.T) {
	server, client := configs(t, TLS{})
	offering := server.Clone()
	offering.SessionTicketsDisabled = false
	offering.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := server.GetConfigForClient(hello)
		if err == nil {
			c.SessionTicketsDisabled = false
		}
		return c, err
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tt := range []struct {
			name   string
			server *tls.Config
			want   bool
		}{{"ours", server, false}, {"one that differs in that alone", offering, true}} {
			cache := new(sessions)
			c := client.Clone()
			c.MaxVersion, c.ClientSessionCache = version, cache
			if _, err := shake(t, tt.server, c); err != nil {
				t.Fatalf("%s, port %s: %v", tls.VersionName(version), tt.name, err)
			}
			if (cache.n > 0) != tt.want {
				t.Errorf("%s, port %s: %d sessions are offered", tls.VersionName(version), tt.name, cache.n)
			}
		}
	}
}
