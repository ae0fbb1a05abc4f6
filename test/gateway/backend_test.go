package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a certificate that signs itself.
type pair struct {
	certificate, key []byte // PEM
	tls              tls.Certificate
}

// newPair makes one for the names; serial tells it from others.
func newPair(t *testing.T, serial int64, names ...string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	if p.tls, err = tls.X509KeyPair(p.certificate, p.key); err != nil {
		t.Fatal(err)
	}
	return p
}

// put writes the pair into a folder of the gateway: the certificate last, and at once, for that is what Envoy watches for.
func (p pair) put(t *testing.T, dir string) {
	t.Helper()
	for _, f := range []struct {
		name string
		text []byte
	}{{"key.pem", p.key}, {"cert.pem", p.certificate}} {
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
	entry("tls.crt", p.certificate)
	entry("tls.key", p.key)
	for _, c := range clients {
		entry("ca.crt", c.certificate)
	}
	return b.String()
}

// httpBackend answers with its name and what the gateway says of the caller; it gives its port.
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
	s.TLS = &tls.Config{Certificates: []tls.Certificate{p.tls}}
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
