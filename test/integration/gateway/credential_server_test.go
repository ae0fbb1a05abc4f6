package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/sds"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// externalCredentials is a Gateway at port %[1]d that asks clients for certificates, whose
// credential is external, and a backend at port %[2]d.
const externalCredentials = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %[1]d, name: https, protocol: HTTPS}, hosts: [web.example.com], tls: {mode: MUTUAL, credentialName: "sds://web"}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: istio-system}
spec: {hosts: [web.example.com], gateways: [public], http: [{route: [{destination: {host: backend.example.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: backend, namespace: istio-system}
spec: {hosts: [backend.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[2]d}], endpoints: [{address: 127.0.0.1}]}
`

// externalAuthorities verifies the backend by an external credential.
const externalAuthorities = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: backend, namespace: istio-system}
spec: {host: backend.example.com, trafficPolicy: {tls: {mode: SIMPLE, credentialName: "sds://backend", sni: backend.example.com, subjectAltNames: [backend.example.com]}}}
`

// credentialProvider is a MeshConfig with an SDS provider, and credentialService its service at port
// %d.
const (
	credentialProvider = `extensionProviders: [{name: vault, sds: {name: vault, service: sds.example.com, port: 8443}}]`
	credentialService  = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: sds, namespace: istio-system}
spec: {hosts: [sds.example.com], resolution: STATIC, ports: [{name: grpc, number: 8443, protocol: GRPC, targetPort: %d}], endpoints: [{address: 127.0.0.1}]}
`
)

// TestCredentialServer calls a gateway whose certificates come from an SDS server beside it: its own
// one, which is replaced once, the authorities of clients, and those of a backend.
func TestCredentialServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := socket.Listen(filepath.Join(dir, mesh.CredentialServerSocket), socket.Everyone)
	if err != nil {
		t.Fatal(err)
	}
	store := serveCredentials(t, l)
	first, second := newPair(1, "web.example.com"), newPair(2, "web.example.com")
	client, stranger, backend := newPair(3, "client"), newPair(4, "client"), newPair(5, "backend.example.com")
	store.Set("sds://web", secret.Secret{Chain: first.CertificatePEM(), Key: first.KeyPEM()})
	store.Set("sds://web-cacert", secret.Secret{Roots: client.CertificatePEM()})
	store.Set("sds://backend-cacert", secret.Secret{Roots: backend.CertificatePEM()})

	e := gatewayenv.Start(t, gatewayenv.Options{AgentDir: dir})
	port := serving.FreePort(t)
	e.Write("gateway.yaml", fmt.Sprintf(externalCredentials, port, tlsBackend(t, "backend", backend)))
	e.Write("tls.yaml", externalAuthorities)
	const url = "https://web.example.com/"
	gatewayenv.Eventually(t, "the gateway serves the certificate", func() error {
		return caller{port, first, &client}.says(url, "backend")
	})
	for _, c := range []*pair{nil, &stranger} {
		if err := (caller{port, first, c}).says(url, "error"); err != nil {
			t.Errorf("a client without a certificate of the authorities: %v", err)
		}
	}
	store.Set("sds://web", secret.Secret{Chain: second.CertificatePEM(), Key: second.KeyPEM()})
	gatewayenv.Eventually(t, "the gateway serves the new certificate", func() error {
		return caller{port, second, &client}.says(url, "backend")
	})
}

// TestCredentialProvider is TestCredentialServer for the SDS provider of the mesh, a service, which
// serves the credentials of gateways.
func TestCredentialProvider(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := serveCredentials(t, l)
	first, second := newPair(1, "web.example.com"), newPair(2, "web.example.com")
	client, stranger := newPair(3, "client"), newPair(4, "client")
	store.Set("web", secret.Secret{Chain: first.CertificatePEM(), Key: first.KeyPEM()})
	store.Set("web-cacert", secret.Secret{Roots: client.CertificatePEM()})

	config := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(config, []byte(credentialProvider), 0o600); err != nil {
		t.Fatal(err)
	}
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--meshConfig", config}})
	port := serving.FreePort(t)
	e.Write("gateway.yaml", fmt.Sprintf(externalCredentials, port, httpBackend(t, "backend")))
	e.Write("sds.yaml", fmt.Sprintf(credentialService, l.Addr().(*net.TCPAddr).Port))
	const url = "https://web.example.com/"
	gatewayenv.Eventually(t, "the gateway serves the certificate", func() error {
		return caller{port, first, &client}.says(url, "backend")
	})
	if err := (caller{port, first, &stranger}).says(url, "error"); err != nil {
		t.Errorf("a client without a certificate of the authorities: %v", err)
	}
	store.Set("web", secret.Secret{Chain: second.CertificatePEM(), Key: second.KeyPEM()})
	gatewayenv.Eventually(t, "the gateway serves the new certificate", func() error {
		return caller{port, second, &client}.says(url, "backend")
	})
}

// serveCredentials serves the secrets of the returned store by SDS until the test ends.
func serveCredentials(t *testing.T, l net.Listener) *secret.Store {
	t.Helper()
	store := secret.NewStore()
	server := sds.New(sds.Options{
		Store: store, WatchIfFile: func(context.Context, string) bool { return false }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return store
}
