package sds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestEnvoyRejectsRevokedCertificates tests with a real Envoy that a client certificate is rejected
// after it was revoked by a file that appears while both run.
func TestEnvoyRejectsRevokedCertificates(t *testing.T) {
	root := pki.Authority("root")
	p := newPeer(t, root)
	good, bad := root.Issue(&x509.Certificate{}), root.Issue(&x509.Certificate{})
	call := p.call
	for name, pair := range map[string]*pki.Pair{"one": good, "another": bad} {
		if err := call(pair); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(p.lists, root.Revoke(bad.Certificate.SerialNumber), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := call(bad)
		if err != nil && strings.Contains(err.Error(), "revoked") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("a revoked client is served: %w", err))
		}
	}
	if err := call(good); err != nil {
		t.Errorf("a client that was not revoked: %v", err)
	}
}

// peer is a real Envoy that gets its certificate and the mesh's roots from this server.
type peer struct {
	store   *secret.Store
	lists   string // the file of lists of revoked certificates
	address string
	root    *pki.Pair
}

// newPeer starts a peer with a certificate signed by root, which is the only root that it trusts at
// first.
func newPeer(t *testing.T, root *pki.Pair) *peer {
	t.Helper()
	envoy.RequireBinary(t)
	dir := t.TempDir()
	p := &peer{store: secret.NewStore(), lists: filepath.Join(dir, "ca-crl.pem"), address: serving.FreeAddress(t), root: root}
	path := filepath.Join(dir, "socket")
	files := &secret.Files{Store: p.store, CRLPaths: []string{p.lists}, Log: slog.New(slog.DiscardHandler), OnFailure: func() { t.Error("a list is not used") }}
	s := New(Options{Store: p.store, WatchIfFile: func(context.Context, string) bool { return false }, Log: slog.New(slog.DiscardHandler)})
	l, err := socket.Listen(path, socket.OwnerAndGroup)
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
	chain, err := secret.ParseKeyPair(own.CertificatePEM(), own.KeyPEM())
	if err != nil {
		t.Fatal(err)
	}
	p.store.Set(secret.WorkloadName, chain)
	p.trust(t, root.CertificatePEM())
	_, port, _ := strings.Cut(p.address, ":")
	envoy.Start(t, envoy.Options{Bootstrap: []byte(strings.NewReplacer("$PORT", port, "$SOCKET", path).Replace(peerBootstrap)), Ready: envoy.Listening("tcp", p.address)})
	return p
}

func (p *peer) trust(t *testing.T, roots []byte, domains ...secret.TrustDomain) {
	t.Helper()
	trust, err := secret.ParseRoots(roots)
	if err != nil {
		t.Fatal(err)
	}
	trust.TrustDomains = domains
	p.store.Set(secret.RootsName, trust)
}

// call returns the error of a request made with a client certificate.
func (p *peer) call(as *pki.Pair) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.root.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{as.TLS()}}}
	r, err := (&http.Client{Transport: transport, Timeout: waitTimeout}).Get("https://" + p.address)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.ReadAll(r.Body)
	return err
}

// TestEnvoyKnowsAuthoritiesByTrustDomain tests that a root is accepted only for identities of its
// trust domains, and that revocation lists apply there too.
func TestEnvoyKnowsAuthoritiesByTrustDomain(t *testing.T) {
	own, partner := pki.Authority("own"), pki.Authority("partner")
	p := newPeer(t, own)
	of := func(root *pki.Pair, domain string) *pki.Pair {
		return root.Issue(&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: domain, Path: "/ns/a/sa/b"}}})
	}
	fromPartner, bad := of(partner, "partner.example"), of(partner, "partner.example")
	expect := func(when string, as *pki.Pair, want bool) {
		t.Helper()
		serving.Eventually(t, waitTimeout, when, func() error {
			if err := p.call(as); (err == nil) != want {
				return fmt.Errorf("answered %v: %w", err == nil, err)
			}
			return nil
		})
	}
	both := slices.Concat(own.CertificatePEM(), partner.CertificatePEM())
	p.trust(t, both)
	expect("both authorities for all", of(partner, "own.example"), true)
	p.trust(t, both, secret.TrustDomain{Name: "own.example", Roots: own.CertificatePEM()}, secret.TrustDomain{Name: "partner.example", Roots: partner.CertificatePEM()})
	expect("an authority for another's trust domain", of(partner, "own.example"), false)
	expect("an authority for its own", fromPartner, true)
	expect("the mesh's own", of(own, "own.example"), true)
	expect("the mesh's own for another's", of(own, "partner.example"), false)
	expect("a trust domain of nobody", of(own, "third.example"), false)
	expect("another one of the partner", bad, true)
	if err := os.WriteFile(p.lists, slices.Concat(own.Revoke(), partner.Revoke(bad.Certificate.SerialNumber)), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("who was revoked", bad, false)
	expect("who was not", fromPartner, true)
	expect("and not in the mesh", of(own, "own.example"), true)
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
