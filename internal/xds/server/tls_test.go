package server

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// serverPair issues a certificate for localhost.
func serverPair(ca *pki.Pair) *pki.Pair {
	return ca.Issue(
		&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	)
}

// shown issues a client certificate with the given URIs.
func shown(t *testing.T, ca *pki.Pair, uris ...string) *tls.Certificate {
	t.Helper()
	template := new(x509.Certificate)
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	c := ca.Issue(template).TLS()
	return &c
}

// secured is a server with TLS whose certificate files can be changed.
type secured struct {
	*harness
	ca    *pki.Pair
	first *pki.Pair // the certificate that it serves first
	files CertificateFiles
	log   *serving.Log
	echo  *echo
}

func serveTLS(t *testing.T, settings TLS) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{ca: pki.Authority("test"), log: new(serving.Log), echo: newEcho(), files: CertificateFiles{
		Certificate: filepath.Join(
			dir,
			"cert.pem",
		),
		Key:   filepath.Join(dir, "key.pem"),
		Roots: filepath.Join(dir, "roots.pem"),
	}}
	s.first = serverPair(s.ca)
	write(t, s.files.Certificate, s.first.CertificatePEM())
	write(t, s.files.Key, s.first.KeyPEM())
	write(t, s.files.Roots, s.ca.CertificatePEM())
	settings.Files = s.files
	config, err := settings.Config(slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.harness = serveOver(t, 1, Options{Generators: map[string]Handler{"api": s.echo}}, Transport{TLS: config})
	return s
}

// write replaces a file atomically, as a certificate rotation should.
func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// client returns the TLS settings of a client with a certificate, or without one if own is nil.
func (s *secured) client(own *tls.Certificate) *tls.Config {
	c := &tls.Config{RootCAs: s.ca.Pool(), ServerName: "localhost"}
	if own != nil {
		c.Certificates = []tls.Certificate{*own}
	}
	return c
}

// serial connects, and returns the serial number of the server's certificate.
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
	if _, err := conn.Read(
		make([]byte, 1),
	); err != nil { // with TLS 1.3 the refusal of a client certificate is seen only here
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

const ours = "spiffe://cluster.local/ns/istio-system/sa/istiod"

func TestIdentityIsVerified(t *testing.T) {
	s := serveTLS(t, TLS{TrustDomains: func() []string { return []string{"cluster.local", "old.local"} }})
	stranger := pki.Authority("test")
	tests := []struct {
		name string
		own  *tls.Certificate
		want []string
		err  string
	}{
		{"no certificate", nil, nil, ""},
		{"ours", shown(t, s.ca, ours), []string{ours}, ""},
		{
			"an alias of the trust domain",
			shown(t, s.ca, "spiffe://old.local/ns/a/sa/b"),
			[]string{"spiffe://old.local/ns/a/sa/b"},
			"",
		},
		{"foreign trust domain", shown(t, s.ca, "spiffe://foreign/ns/istio-system/sa/istiod"), nil, "certificate"},
		{"two identities", shown(t, s.ca, ours, "spiffe://cluster.local/ns/a/sa/b"), nil, "certificate"},
		{"no identity", shown(t, s.ca), nil, "certificate"},
		{"no SPIFFE ID", shown(t, s.ca, "https://cluster.local/ns/a/sa/b"), nil, "certificate"},
		{"unknown authority", shown(t, stranger, ours), nil, "unknown certificate authority"},
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

// harnessClient returns a client that sends its certificate whichever authorities the server names.
func (s *secured) harnessClient(own *tls.Certificate) *tls.Config {
	c := s.client(nil)
	if own != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return c
}

func TestCertificatesRotate(t *testing.T) {
	s := serveTLS(t, TLS{})
	proxy := open(
		t,
		s.dial(grpc.WithTransportCredentials(credentials.NewTLS(s.client(nil)))),
		stream.Delta,
		testNode(1),
	)
	proxy.start()
	want := func(p *pki.Pair) {
		t.Helper()
		if got, err := s.serial(s.client(nil)); err != nil || got != p.Certificate.SerialNumber.Int64() {
			t.Errorf("serial number of the certificate = %d, %v, want %d", got, err, p.Certificate.SerialNumber)
		}
	}
	want(s.first)
	second, third := serverPair(s.ca), serverPair(s.ca)
	write(t, s.files.Certificate, second.CertificatePEM())
	want(s.first) // the new certificate does not match the key
	if !strings.Contains(s.log.String(), "new certificate files are invalid; the previous certificate stays in use") {
		t.Error("a certificate that does not match its key was not reported")
	}
	write(t, s.files.Key, second.KeyPEM())
	want(second)
	if err := os.Remove(s.files.Key); err != nil {
		t.Fatal(err)
	}
	want(second)
	write(t, s.files.Key, third.KeyPEM())
	write(t, s.files.Certificate, third.CertificatePEM())
	want(third)

	next := pki.Authority("test")
	both := append(s.ca.CertificatePEM(), next.CertificatePEM()...)
	if _, err := s.serial(s.harnessClient(shown(t, next, ours))); err == nil {
		t.Error("the client trusts an authority that is not among the roots")
	}
	write(t, s.files.Roots, both)
	if _, err := s.serial(s.harnessClient(shown(t, next, ours))); err != nil {
		t.Errorf("new roots are not used: %v", err)
	}
	write(t, s.files.Roots, []byte("nothing"))
	if _, err := s.serial(s.harnessClient(shown(t, s.ca, ours))); err != nil {
		t.Errorf("the last good roots are not used: %v", err)
	}
	s.mesh.EditRoutes()
	proxy.want("type.googleapis.com/envoy.config.route.v3.RouteConfiguration") // open streams continue
}

func TestVersionsOfTLS(t *testing.T) {
	tests := []struct {
		name     string
		settings TLS
		client   func(*tls.Config)
		ok       bool
	}{
		{"1.2", TLS{}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true},
		{
			"1.2 where 1.3 is the least",
			TLS{MinVersion: tls.VersionTLS13},
			func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
			false,
		},
		{"1.3", TLS{MinVersion: tls.VersionTLS13}, func(*tls.Config) {}, true},
		{
			"the wrong suite",
			TLS{CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
			func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{
					tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
				}
			},
			false,
		},
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
	pair := serverPair(pki.Authority("test"))
	good, goodKey, empty := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "empty")
	write(t, good, pair.CertificatePEM())
	write(t, goodKey, pair.KeyPEM())
	write(t, empty, nil)
	for name, files := range map[string]CertificateFiles{
		"absent": {filepath.Join(dir, "absent"), goodKey, ""}, "empty": {empty, goodKey, ""}, "no key": {good, good, ""}, "no roots": {good, goodKey, empty},
	} {
		_, err := TLS{Files: files}.Config(slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error = %v, want one that names the file", name, err)
		}
	}
}
