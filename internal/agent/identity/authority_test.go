package identity

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/testkit/authority"
	"github.com/meshpilot/meshpilot/internal/testkit/pki"
)

// TestAuthority: requests go to the first address that answers and is the mesh's, with the token as it is now.
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
	csr, err := request(pki.NewKey(), Name("cluster.local", "ns", "sa"))
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
		call := right.Await(t, i+1)[i]
		if got := strings.Join(call.Metadata.Get("authorization"), ","); got != strings.TrimSpace(strings.TrimSuffix("Bearer "+token, "Bearer ")) {
			t.Errorf("token %q", got)
		}
		if call.Lifetime != time.Hour || call.Peer != nil || call.Metadata.Get("clusterid")[0] != "c1" {
			t.Errorf("call %+v", call)
		}
	}
	if n := len(wrong.Await(t, 0)); n > 0 {
		t.Errorf("%d requests to an impostor", n)
	}
	// A certificate to begin with does as well.
	own := root.Issue(&x509.Certificate{})
	a.Target.Certificate, a.Target.Key, a.Target.Token = filepath.Join(dir, "cert"), filepath.Join(dir, "key"), ""
	if err := own.WriteFiles(a.Target.Certificate, a.Target.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sign(t.Context(), csr, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := right.Await(t, 4)[3]; got.Peer == nil || !got.Peer.Equal(own.Certificate) || len(got.Metadata.Get("authorization")) > 0 {
		t.Errorf("shown %v", got.Peer)
	}
	write(tokenPath, make([]byte, 100_000))
	a.Target.Token, a.Target.Addresses = tokenPath, a.Target.Addresses[1:]
	if _, err := a.Sign(t.Context(), csr, time.Hour); err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a huge token: %v", err)
	}
}
