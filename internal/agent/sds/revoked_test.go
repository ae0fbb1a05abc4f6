package sds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/testkit/envoy"
	"github.com/meshpilot/meshpilot/internal/testkit/pki"
	"github.com/meshpilot/meshpilot/internal/testkit/serving"
)

// TestEnvoyTurnsTheRevokedAway has a real Envoy take its certificate and the mesh's roots from here, and a caller whose certificate
// comes to be revoked while they run: by a file that was not there before.
func TestEnvoyTurnsTheRevokedAway(t *testing.T) {
	envoy.Require(t)
	dir, root := t.TempDir(), pki.Authority("root")
	store := secret.NewStore()
	list, path := filepath.Join(dir, "ca-crl.pem"), filepath.Join(dir, "socket")
	files := &secret.Files{Store: store, Revoked: []string{list}, Log: slog.New(slog.DiscardHandler), Failed: func() { t.Error("a list is not used") }}
	s := New(Options{Store: store, Want: func(context.Context, string) bool { return false }, Log: slog.New(slog.DiscardHandler)})
	l, err := socket.Listen(path, socket.Ours)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(ctx, l) }()
	go func() { ended <- files.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	own := root.Issue(&x509.Certificate{DNSNames: []string{"localhost"}})
	chain, err := secret.Pair(own.CertificatePEM(), own.KeyPEM())
	if err != nil {
		t.Fatal(err)
	}
	trust, err := secret.Trust(root.CertificatePEM())
	if err != nil {
		t.Fatal(err)
	}
	store.Set(secret.Workload, chain)
	store.Set(secret.Roots, trust)

	address := serving.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	envoy.Start(t, envoy.Options{Bootstrap: []byte(strings.NewReplacer("$PORT", port, "$SOCKET", path).Replace(peerBootstrap)), Ready: envoy.Listening("tcp", address)})
	good, bad := root.Issue(&x509.Certificate{}), root.Issue(&x509.Certificate{})
	call := func(as *pki.Pair) error {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: root.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{as.TLS()}}}
		r, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + address)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		_, err = io.ReadAll(r.Body)
		return err
	}
	for name, pair := range map[string]*pki.Pair{"one": good, "another": bad} {
		if err := call(pair); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(list, root.Revoke(bad.Certificate.SerialNumber), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := call(bad)
		if err != nil && strings.Contains(err.Error(), "revoked") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("who was revoked is served: %w", err))
		}
	}
	if err := call(good); err != nil {
		t.Errorf("who was not revoked: %v", err)
	}
}

const peerBootstrap = `
node: {id: x, cluster: x}
static_resources:
  clusters:
  - name: sds
    load_assignment:
      cluster_name: sds
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: $SOCKET}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
  listeners:
  - name: inbound
    address: {socket_address: {address: 127.0.0.1, port_value: $PORT}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: inbound
          http_filters:
          - {name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}]
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: true
          common_tls_context:
            tls_certificate_sds_secret_configs:
            - name: default
              sds_config: {resource_api_version: V3, api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: sds}}]}}
            validation_context_sds_secret_config:
              name: ROOTCA
              sds_config: {resource_api_version: V3, api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: sds}}]}}
`
