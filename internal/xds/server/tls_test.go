package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.last++
	template.SerialNumber, template.Subject = big.NewInt(a.last), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// server issues a certificate for localhost, and gives it and the key in PEM.
func (a *authority) server() (cert, key []byte) {
	c, k := a.issue(&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return inPEM("CERTIFICATE", c.Raw), inPEM("PRIVATE KEY", der)
}

// client issues a certificate with URIs.
func (a *authority) client(uris ...string) *tls.Certificate {
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	c, k := a.issue(template)
	return &tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: k}
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// secured is a server with TLS whose files can be changed.
type secured struct {
	*harness
	ca    *authority
	files CertificateFiles
	log   *safeBuffer
	echo  *echo
}

func serveTLS(t *testing.T, settings TLS) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{ca: newAuthority(t), log: new(safeBuffer), echo: newEcho(), files: CertificateFiles{
		Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), Roots: filepath.Join(dir, "roots.pem"),
	}}
	cert, key := s.ca.server()
	write(t, s.files.Certificate, cert)
	write(t, s.files.Key, key)
	write(t, s.files.Roots, inPEM("CERTIFICATE", s.ca.cert.Raw))
	settings.Files = s.files
	config, err := settings.Config(slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.harness = serveOver(t, 1, Options{Generators: map[string]Handler{"api": s.echo}}, Transport{TLS: config})
	return s
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// write puts a file in the place of the one before, as whoever rotates certificates should.
func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// client gives the TLS settings of a client, nil: without a certificate.
func (s *secured) client(own *tls.Certificate) *tls.Config {
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	c.RootCAs.AddCert(s.ca.cert)
	if own != nil {
		c.Certificates = []tls.Certificate{*own}
	}
	return c
}

// serial connects, and gives the serial number of the server's certificate.
func (s *secured) serial(c *tls.Config) (int64, error) {
	c = c.Clone()
	c.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", s.addr, c)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // TLS 1.3 says only now that the client's certificate is refused
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

const ours = "spiffe://cluster.local/ns/istio-system/sa/istiod"

func TestIdentityIsVerified(t *testing.T) {
	s := serveTLS(t, TLS{TrustDomains: func() []string { return []string{"cluster.local", "old.local"} }})
	stranger := newAuthority(t)
	tests := []struct {
		name string
		own  *tls.Certificate
		want []string
		err  string
	}{
		{"no certificate", nil, nil, ""},
		{"ours", s.ca.client(ours), []string{ours}, ""},
		{"an alias of the trust domain", s.ca.client("spiffe://old.local/ns/a/sa/b"), []string{"spiffe://old.local/ns/a/sa/b"}, ""},
		{"foreign trust domain", s.ca.client("spiffe://foreign/ns/istio-system/sa/istiod"), nil, "certificate"},
		{"two identities", s.ca.client(ours, "spiffe://cluster.local/ns/a/sa/b"), nil, "certificate"},
		{"no identity", s.ca.client(), nil, "certificate"},
		{"no SPIFFE ID", s.ca.client("https://cluster.local/ns/a/sa/b"), nil, "certificate"},
		{"unknown authority", stranger.client(ours), nil, "unknown certificate authority"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.serial(s.harnessClient(tt.own)); tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("the connection ended with %v, want %q", err, tt.err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			conn := s.dial(grpc.WithTransportCredentials(credentials.NewTLS(s.client(tt.own))))
			c := open(t, conn, stream.Delta, generatorNode("n", "api"))
			c.ask("x.io/Thing", []string{"a"}, nil)
			c.want("x.io/Thing")
			if h := <-s.echo.hellos; !h.Secure || !slices.Equal(h.Identities, tt.want) {
				t.Errorf("secure %v, identities %v, want %v", h.Secure, h.Identities, tt.want)
			}
		})
	}
}

// harnessClient is a client that shows its certificate whatever authorities the server names.
func (s *secured) harnessClient(own *tls.Certificate) *tls.Config {
	c := s.client(nil)
	if own != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return c
}

func TestCertificatesRotate(t *testing.T) {
	s := serveTLS(t, TLS{})
	proxy := open(t, s.dial(grpc.WithTransportCredentials(credentials.NewTLS(s.client(nil)))), stream.Delta, testNode(1))
	proxy.start()
	want := func(serial int64) {
		t.Helper()
		if got, err := s.serial(s.client(nil)); err != nil || got != serial {
			t.Errorf("the certificate is number %d, %v, want %d", got, err, serial)
		}
	}
	want(2)
	cert, key := s.ca.server()
	write(t, s.files.Certificate, cert)
	want(2) // it does not fit its key
	if !strings.Contains(s.log.String(), "new certificate files are not used") {
		t.Error("nothing was said about a certificate that does not fit its key")
	}
	write(t, s.files.Key, key)
	want(3)
	if err := os.Remove(s.files.Key); err != nil {
		t.Fatal(err)
	}
	want(3)
	cert, key = s.ca.server()
	write(t, s.files.Key, key)
	write(t, s.files.Certificate, cert)
	want(4)

	next := newAuthority(t)
	both := append(inPEM("CERTIFICATE", s.ca.cert.Raw), inPEM("CERTIFICATE", next.cert.Raw)...)
	if _, err := s.serial(s.harnessClient(next.client(ours))); err == nil {
		t.Error("an authority is known that is not among the roots")
	}
	write(t, s.files.Roots, both)
	if _, err := s.serial(s.harnessClient(next.client(ours))); err != nil {
		t.Errorf("new roots are not used: %v", err)
	}
	write(t, s.files.Roots, []byte("nothing"))
	if _, err := s.serial(s.harnessClient(s.ca.client(ours))); err != nil {
		t.Errorf("the last good roots are not used: %v", err)
	}
	s.mesh.EditRoutes()
	proxy.want("type.googleapis.com/envoy.config.route.v3.RouteConfiguration") // nobody was cut off
}

func TestVersionsOfTLS(t *testing.T) {
	tests := []struct {
		name     string
		settings TLS
		client   func(*tls.Config)
		ok       bool
	}{
		{"1.1", TLS{}, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, false},
		{"1.2", TLS{}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true},
		{"1.2 where 1.3 is the least", TLS{MinVersion: tls.VersionTLS13}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, false},
		{"1.3", TLS{MinVersion: tls.VersionTLS13}, func(*tls.Config) {}, true},
		{"the wrong suite", TLS{CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveTLS(t, tt.settings)
			c := s.client(nil)
			tt.client(c)
			if _, err := s.serial(c); (err == nil) != tt.ok {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

func TestBadCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t)
	cert, key := ca.server()
	good, goodKey, empty := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "empty")
	write(t, good, cert)
	write(t, goodKey, key)
	write(t, empty, nil)
	for name, files := range map[string]CertificateFiles{
		"absent": {filepath.Join(dir, "absent"), goodKey, ""}, "empty": {empty, goodKey, ""}, "no key": {good, good, ""}, "no roots": {good, goodKey, empty},
	} {
		if _, err := (TLS{Files: files}).Config(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error is %v, which names no file", name, err)
		}
	}
}
