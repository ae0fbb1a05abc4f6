package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// pair is a self-signed certificate with its key.
type pair struct{ *pki.Pair }

// newPair creates a pair for the names. serial distinguishes it from others.
func newPair(serial int64, names ...string) pair {
	return pair{pki.SelfSigned(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})}
}

// writeFiles writes the pair into a folder of the gateway: the certificate last, and at once, for
// that is what Envoy watches for.
func (p pair) writeFiles(t *testing.T, dir string) {
	t.Helper()
	for _, f := range []struct {
		name string
		text []byte
	}{{"key.pem", p.KeyPEM()}, {"cert.pem", p.CertificatePEM()}} {
		hidden := filepath.Join(dir, "."+f.name)
		if err := os.WriteFile(hidden, f.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, filepath.Join(dir, f.name)); err != nil {
			t.Fatal(err)
		}
	}
}

// secret writes the pair as a Secret; with clients it also has the certificates by which those of clients are checked.
func (p pair) secret(name string, clients ...pair) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata: {name: %s, namespace: istio-system}\nstringData:\n", name)
	entry := func(key string, text []byte) {
		fmt.Fprintf(&b, "  %s: |\n    %s\n", key, bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n    ")))
	}
	entry("tls.crt", p.CertificatePEM())
	entry("tls.key", p.KeyPEM())
	for _, c := range clients {
		entry("ca.crt", c.CertificatePEM())
	}
	return b.String()
}

// httpBackend starts a server that answers with its name and the gateway's headers about the
// caller; it returns its port.
func httpBackend(t *testing.T, name string) int {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s cert=%t proto=%s", name, r.Host, r.URL.Path, r.Header.Get("X-Forwarded-Client-Cert") != "", r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// tlsBackend ends TLS itself, and answers with its name.
func tlsBackend(t *testing.T, name string, p pair) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{p.TLS()}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// tcpBackend speaks first, then echoes.
func tcpBackend(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprint(c, "hello\n")
				buf := make([]byte, 256)
				n, _ := c.Read(buf)
				_, _ = c.Write(buf[:n])
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}
