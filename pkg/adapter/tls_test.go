package adapter_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"go/parser"
	"go/token"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestRunVerifiesClients reads an adapter with the certificates of allowed and other clients.
func TestRunVerifiesClients(t *testing.T) {
	const allowed = "spiffe://td/ns/istio-system/sa/istiod"
	client := func(id string, from *pki.Pair) tls.Certificate {
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		return from.Issue(&x509.Certificate{URIs: []*url.URL{u}}).TLS()
	}
	roots, other := pki.Authority("roots"), pki.Authority("other")
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	if err := roots.Issue(&x509.Certificate{DNSNames: []string{"adapter.example"}}).WriteFiles(cert, key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, roots.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	p := adapter.PlatformFunc(func(ctx context.Context, sink adapter.Sink) error {
		set(service("web", "i1"))(sink)
		<-ctx.Done()
		return nil
	})
	go func() {
		done <- adapter.Run(ctx, p, adapter.Options{
			Platform: "Test", Address: "127.0.0.1:0", Listening: func(a net.Addr) { listening <- a },
			TLS: &adapter.TLS{CertFile: cert, KeyFile: key, ClientCAFile: ca, Clients: []string{allowed}},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address := (<-listening).String()
	read := func(config *tls.Config) (*discoveryv3.DiscoveryResponse, error) {
		config.RootCAs, config.ServerName = roots.Pool(), "adapter.example"
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		if err != nil {
			return nil, err
		}
		// An error of the stream is returned by Recv.
		_ = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "networking.istio.io/v1/ServiceEntry"})
		return stream.Recv()
	}
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		allowed      bool
	}{
		"allowed":           {[]tls.Certificate{client(allowed, roots)}, true},
		"another identity":  {[]tls.Certificate{client("spiffe://td/ns/shop/sa/web", roots)}, false},
		"another authority": {[]tls.Certificate{client(allowed, other)}, false},
		"no certificate":    {nil, false},
	} {
		got, err := read(&tls.Config{Certificates: c.certificates})
		if (err == nil) != c.allowed || c.allowed && len(got.GetResources()) != 1 {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

// TestImportsNothingInternal keeps the package usable from other repositories.
func TestImportsNothingInternal(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range tree.Imports {
			if strings.Contains(i.Path.Value, "meshpilot/") {
				t.Errorf("%s imports %s", f, i.Path.Value)
			}
		}
	}
}
