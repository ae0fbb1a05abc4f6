package identity

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/test/support/authority"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestAuthority tests that a request is sent, with the current token, to the first address that
// answers with a certificate of the mesh.
func TestAuthority(t *testing.T) {
	root, dir := pki.Authority("root"), t.TempDir()
	rootsPath, tokenPath := filepath.Join(dir, "roots"), filepath.Join(dir, "token")
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(rootsPath, root.CertificatePEM())
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	names := &x509.Certificate{DNSNames: []string{"istiod.istio-system.svc"}}
	impostor, ours := pki.Authority("impostor").Issue(names).TLS(), root.Issue(names).TLS()
	bad, good := listen(), listen()
	wrong := authority.Start(t, bad, &impostor, authority.Answer{Root: root})
	right := authority.Start(t, good, &ours, authority.Answer{Root: root})

	a := Authority{Target: controlplane.Target{
		Addresses: []string{bad.Addr().String(), good.Addr().String()}, ServerName: "istiod.istio-system.svc", Roots: rootsPath, Token: tokenPath,
		Metadata: map[string]string{"clusterid": "c1"},
	}, Signer: "signer.example"}
	csr, err := newCSR(pki.NewKey(), SPIFFEID("cluster.local", "ns", "sa"))
	if err != nil {
		t.Fatal(err)
	}
	for i, token := range []string{"", "one", "two\n"} {
		if token != "" {
			write(tokenPath, []byte(token))
		}
		chain, err := a.Sign(t.Context(), csr, time.Hour)
		if err != nil || len(chain) != 2 {
			t.Fatalf("%q, %v", chain, err)
		}
		call := right.AwaitRequests(t, i+1)[i]
		if got := strings.Join(call.Metadata.Get("authorization"), ","); got != strings.TrimSpace(strings.TrimSuffix("Bearer "+token, "Bearer ")) {
			t.Errorf("token %q", got)
		}
		if call.Lifetime != time.Hour || call.Peer != nil || call.Metadata.Get("clusterid")[0] != "c1" {
			t.Errorf("call %+v", call)
		}
	}
	if n := len(wrong.AwaitRequests(t, 0)); n > 0 {
		t.Errorf("%d requests to an impostor", n)
	}
	// An initial certificate authenticates too.
	own := root.Issue(&x509.Certificate{})
	a.Target.Certificate, a.Target.Key, a.Target.Token = filepath.Join(dir, "cert"), filepath.Join(dir, "key"), ""
	if err := own.WriteFiles(a.Target.Certificate, a.Target.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sign(t.Context(), csr, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := right.AwaitRequests(t, 4)[3]; got.Peer == nil || !got.Peer.Equal(own.Certificate) || len(got.Metadata.Get("authorization")) > 0 {
		t.Errorf("shown %v", got.Peer)
	}
	write(tokenPath, make([]byte, 100_000))
	a.Target.Token, a.Target.Addresses = tokenPath, a.Target.Addresses[1:]
	if _, err := a.Sign(t.Context(), csr, time.Hour); err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a huge token: %v", err)
	}
}

// TestCertificatesOfAPreviousRun tests that a workload with a certificate of an authority that is
// no longer trusted gets a new one by its token.
func TestCertificatesOfAPreviousRun(t *testing.T) {
	root, dir := pki.Authority("root"), t.TempDir()
	old := pki.Authority("before").Issue(&x509.Certificate{})
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := old.WriteFiles(file("cert"), file("key")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"roots": root.CertificatePEM(), "token": []byte("one")} {
		if err := os.WriteFile(file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := root.Issue(&x509.Certificate{DNSNames: []string{"localhost"}}).TLS()
	refused := status.Error(codes.Unauthenticated, "unknown certificate")
	ca := authority.Start(t, l, &server, authority.Answer{Root: root, Refuse: func(c authority.Call) error {
		if c.Peer != nil {
			return refused
		}
		return nil
	}})
	a := Authority{Target: controlplane.Target{
		Addresses: []string{l.Addr().String()}, ServerName: "localhost", Roots: file("roots"), Certificate: file("cert"), Key: file("key"), Token: file("token"),
	}}
	csr, err := newCSR(pki.NewKey(), SPIFFEID("cluster.local", "ns", "sa"))
	if err != nil {
		t.Fatal(err)
	}
	if chain, err := a.Sign(t.Context(), csr, time.Hour); err != nil || len(chain) != 2 {
		t.Fatalf("%q, %v", chain, err)
	}
	if calls := ca.AwaitRequests(t, 2); calls[0].Peer == nil || calls[1].Peer != nil || calls[1].Metadata.Get("authorization")[0] != "Bearer one" {
		t.Errorf("calls %+v; want one with the certificate, and one with the token alone", calls)
	}
	a.Target.Token = ""
	if _, err := a.Sign(t.Context(), csr, time.Hour); err == nil || !strings.Contains(err.Error(), "unknown certificate") {
		t.Errorf("without a token: %v", err)
	}
	if n := len(ca.AwaitRequests(t, 3)); n != 3 {
		t.Errorf("%d calls; there is nothing else to try without a token", n)
	}
}

// TestSilentAddress tests that an address which accepts connections and never answers fails long before
// the time that an external signer may take.
func TestSilentAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	roots := filepath.Join(t.TempDir(), "roots")
	if err := os.WriteFile(roots, pki.Authority("root").CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := controlplane.Target{ServerName: "istiod.istio-system.svc", Roots: roots}.NewConnection(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = awaitConnection(t.Context(), c, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "no connection within 50ms") {
		t.Errorf("got %v, want an error about the connection", err)
	}
}
