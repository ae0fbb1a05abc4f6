package xds

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// authority signs certificates and writes them to files. Its own is root.pem.
type authority struct {
	*pki.Pair
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{Pair: pki.Authority(name), t: t, dir: t.TempDir()}
	a.write("root.pem", a.CertificatePEM())
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name string, text []byte) string {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return a.path(name)
}

// issue writes a certificate for a SPIFFE identity, 127.0.0.1 and a host name, and returns the
// paths of it and its key.
func (a *authority) issue(name string, serial int64) (cert, key string) {
	a.t.Helper()
	p := a.Issue(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name + ".example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/istio-system/sa/" + name}},
	})
	return a.write(name+".pem", p.CertificatePEM()), a.write(name+"-key.pem", p.KeyPEM())
}

// revoke writes a list that revokes serial numbers.
func (a *authority) revoke(serials ...int64) string {
	a.t.Helper()
	list := make([]*big.Int, 0, len(serials))
	for _, n := range serials {
		list = append(list, big.NewInt(n))
	}
	return a.write("crl.pem", a.Revoke(list...))
}

func TestTLS(t *testing.T) {
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	serverCert, serverKey := ours.issue("server", 42)
	clientCert, clientKey := ours.issue("client", 43)
	strangeCert, strangeKey := other.issue("client", 44)
	root, err := os.ReadFile(ours.path("root.pem"))
	if err != nil {
		t.Fatal(err)
	}
	type settings = networking.ClientTLSSettings
	const simple, mutual = networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL
	for name, tt := range map[string]struct {
		tls     *settings
		mutual  bool   // the server wants a certificate
		refused string // the reason; empty: it works
	}{
		"simple":                {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem")}},
		"simple, PEM in place":  {tls: &settings{Mode: simple, CaCertificates: string(root)}},
		"roots of the system":   {tls: &settings{Mode: simple}, refused: "unknown authority"},
		"another authority":     {tls: &settings{Mode: simple, CaCertificates: other.path("root.pem")}, refused: "unknown authority"},
		"roots are missing":     {tls: &settings{Mode: simple, CaCertificates: ours.path("none")}, refused: "CA certificates: open"},
		"sni":                   {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), Sni: "server.example"}},
		"sni of another":        {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), Sni: "other.example"}, refused: "not other.example"},
		"name by URI":           {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), Sni: "other.example", SubjectAltNames: []string{"spiffe://cluster.local/ns/istio-system/sa/server"}}},
		"name of another":       {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), SubjectAltNames: []string{"spiffe://cluster.local/ns/istio-system/sa/x"}}, refused: "none of subjectAltNames"},
		"name, other authority": {tls: &settings{Mode: simple, CaCertificates: other.path("root.pem"), SubjectAltNames: []string{"server.example"}}, refused: "unknown authority"},
		"not verified":          {tls: &settings{Mode: simple, CaCertificates: other.path("root.pem"), InsecureSkipVerify: wrapperspb.Bool(true)}},
		"revoked":               {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), CaCrl: ours.revoke(7, 42)}, refused: "serial number 42 is revoked"},
		"another is revoked":    {tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem"), CaCrl: other.revoke(42)}},
		"mutual":                {mutual: true, tls: &settings{Mode: mutual, CaCertificates: ours.path("root.pem"), ClientCertificate: clientCert, PrivateKey: clientKey}},
		"a strange client":      {mutual: true, tls: &settings{Mode: mutual, CaCertificates: ours.path("root.pem"), ClientCertificate: strangeCert, PrivateKey: strangeKey}, refused: "cannot be read"},
		"key of another": {
			mutual: true, tls: &settings{Mode: mutual, CaCertificates: ours.path("root.pem"), ClientCertificate: clientCert, PrivateKey: strangeKey},
			refused: "private key does not match",
		},
		"certificate of another": {
			mutual: true, tls: &settings{Mode: mutual, CaCertificates: ours.path("root.pem"), ClientCertificate: strangeCert, PrivateKey: clientKey},
			refused: "private key does not match",
		},
		"no client certificate": {mutual: true, tls: &settings{Mode: simple, CaCertificates: ours.path("root.pem")}, refused: "cannot be read"},
		"istio mutual":          {mutual: true, tls: &settings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}},
		"plain text":            {refused: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, err := tls.LoadX509KeyPair(serverCert, serverKey)
			if err != nil {
				t.Fatal(err)
			}
			c := &tls.Config{Certificates: []tls.Certificate{cert}}
			if tt.mutual {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ours.Pool()
			}
			at, _ := newShop().serve(t, "127.0.0.1:0", grpc.Creds(credentials.NewTLS(c)))
			own := Identity{Certificate: clientCert, Key: clientKey, Roots: ours.path("root.pem")}
			r := start(t, "xds://"+at, &meshconfig.ConfigSource{TlsSettings: tt.tls}, Options{Identity: own})
			if tt.refused == "" {
				r.sync()
				return
			}
			r.until("it is refused", func() bool { return len(r.problems) > 0 })
			if reason := r.problems["xds://"+at][0].Reason; !strings.Contains(reason, tt.refused) || r.synced {
				t.Errorf("reason %q, want %q", reason, tt.refused)
			}
		})
	}
}

// TestRenewedCertificatesAreUsed replaces the roots by those of the server while the connection is
// refused.
func TestRenewedCertificatesAreUsed(t *testing.T) {
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	certFile, keyFile := ours.issue("server", 42)
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := newShop().serve(t, "127.0.0.1:0", grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	roots := other.path("root.pem")
	r := start(t, "xds://"+at, &meshconfig.ConfigSource{
		TlsSettings: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, CaCertificates: roots},
	}, Options{})
	r.until("it is refused", func() bool { return len(r.problems) > 0 })
	other.write("root.pem", ours.CertificatePEM())
	r.sync()
}
