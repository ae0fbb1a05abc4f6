package clienttls_test

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestFiles connects to a server that requires client certificates, while the files of the client
// are missing, those of another authority, and replaced by valid ones.
func TestFiles(t *testing.T) {
	server, other := pki.NewFiles(t, "server.test"), pki.NewFiles(t, "server.test")
	pair, err := tls.LoadX509KeyPair(server.ServerCertFile, server.ServerKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	listening := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: server.CA.Pool()}
	dir := t.TempDir()
	files := clienttls.Files{
		CAFile: server.CAFile, CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ServerName: server.ServerName,
	}
	config, err := files.TLSConfig("test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", listening)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client receives its error
			conn.Close()
		}
	}()
	connect := func(config *tls.Config) error {
		conn, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	if err := connect(config); err == nil || !strings.Contains(err.Error(), "--testCertFile: open ") {
		t.Errorf("without files: error %v", err)
	}
	other.IssueClient(t, files.CertFile, files.KeyFile)
	if err := connect(config); err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
		t.Errorf("with another authority's certificate: error %v", err)
	}
	server.IssueClient(t, files.CertFile, files.KeyFile)
	if err := connect(config); err != nil {
		t.Errorf("with replaced files: error %v", err)
	}
	config, err = clienttls.Files{CAFile: other.CAFile, ServerName: server.ServerName}.TLSConfig("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(config); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("with other roots: error %v", err)
	}
}

func TestInvalidRoots(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(garbage, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		garbage:        "--testCAFile " + garbage + ": has no certificate in PEM",
		garbage + ".x": "--testCAFile: open " + garbage + ".x",
	} {
		if _, err := (clienttls.Files{CAFile: file}).TLSConfig("test"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
