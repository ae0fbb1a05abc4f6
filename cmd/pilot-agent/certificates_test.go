package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/agent/sds"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/test/support/authority"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// leaf returns the template of a workload's certificate: Envoy rejects one without a name.
func leaf() *x509.Certificate {
	return &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "another.example", Path: "/workload"}}}
}

// serves waits until Envoy presents that certificate to a client.
func serves(t *testing.T, port int, client *pki.Pair, roots, want *pki.Pair) {
	t.Helper()
	serial := want.Certificate.SerialNumber
	serving.Eventually(t, patience, "the certificate "+serial.String(), func() error {
		shown, err := callSecured(port, client, roots.Pool())
		if err == nil && shown.SerialNumber.Cmp(serial) != 0 {
			err = fmt.Errorf("it shows %v", shown.SerialNumber)
		}
		return err
	})
}

// TestServerOfAnother tests that Envoy uses the SDS server at the workload's socket if another one,
// such as SPIRE's agent, serves it, and that no certificate is requested. Secrets from files still
// come from the agent.
func TestServerOfAnother(t *testing.T) {
	t.Parallel()
	app := newService(t).port
	p := serving.FreePorts(t, 2)
	files := t.TempDir()
	chain, key := filepath.Join(files, "chain.pem"), filepath.Join(files, "key.pem")
	roots := filepath.Join(files, "roots.pem")
	ofFiles := secured(
		t,
		listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", p[1], "in", "app"),
		"file-cert:"+chain+"~"+key,
		"file-root:"+roots,
	)
	m := newSecureMesh(
		t,
		cluster("app", "127.0.0.1", app),
		secured(
			t,
			listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", p[0], "in", "app"),
			"default",
			"ROOTCA",
		),
		ofFiles,
	)
	spire := pki.Authority("spire")
	first, second := spire.Issue(leaf()), spire.Issue(leaf())
	mounted := spire.Issue(leaf())
	for path, text := range map[string][]byte{chain: mounted.CertificatePEM(), key: mounted.KeyPEM(), roots: spire.CertificatePEM()} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := secret.NewStore()
	put := func(p *pki.Pair) {
		store.Set(secret.WorkloadName, secret.Secret{Chain: p.CertificatePEM(), Key: p.KeyPEM()})
	}
	store.Set(secret.RootsName, secret.Secret{Roots: spire.CertificatePEM()})
	put(first)
	serveSecrets(t, filepath.Join(m.dir, "var/run/secrets/workload-spiffe-uds"), store)

	a := m.start(t)
	a.awaitReady(t)
	client := spire.Issue(leaf())
	serves(t, p[0], client, spire, first)
	put(second)
	serves(t, p[0], client, spire, second)
	serves(t, p[1], client, spire, mounted)
	if calls := m.authority.AwaitRequests(t, 0); len(calls) > 0 {
		t.Errorf("the mesh's authority received %d certificate requests", len(calls))
	}
}

func serveSecrets(t *testing.T, dir string, store *secret.Store) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- sds.New(sds.Options{Store: store, WatchIfFile: func(context.Context, string) bool { return false }, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestMountedCertificates tests a workload certificate in mounted files that change repeatedly, as
// the kubelet changes a volume.
func TestMountedCertificates(t *testing.T) {
	t.Parallel()
	app := newService(t).port
	port := serving.FreePort(t)
	m := newSecureMesh(t, cluster("app", "127.0.0.1", app),
		secured(t, listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", port, "in", "app"), "default", "ROOTCA"))
	root := pki.Authority("another")
	m.write(t, "etc/certs/..data/none", nil)
	if err := os.RemoveAll(filepath.Join(m.dir, "etc/certs/..data")); err != nil {
		t.Fatal(err)
	}
	generation := 0
	mount := func(p *pki.Pair) {
		t.Helper()
		generation++
		version := fmt.Sprintf("..%d", generation)
		// The mesh's control plane is verified by the same roots, which therefore include both.
		m.write(
			t,
			filepath.Join("etc/certs", version, "root-cert.pem"),
			append(root.CertificatePEM(), m.root.CertificatePEM()...),
		)
		m.write(t, filepath.Join("etc/certs", version, "cert-chain.pem"), p.CertificatePEM())
		m.write(t, filepath.Join("etc/certs", version, "key.pem"), p.KeyPEM())
		link := filepath.Join(m.dir, "etc/certs/..next")
		if err := errors.Join(
			os.Symlink(version, link),
			os.Rename(link, filepath.Join(m.dir, "etc/certs/..data")),
		); err != nil {
			t.Fatal(err)
		}
	}
	mount(root.Issue(leaf()))
	for _, name := range []string{"root-cert.pem", "cert-chain.pem", "key.pem"} {
		if err := os.Symlink("..data/"+name, filepath.Join(m.dir, "etc/certs", name)); err != nil {
			t.Fatal(err)
		}
	}
	a := m.start(t)
	a.awaitReady(t)
	client := root.Issue(leaf())
	for range 3 {
		next := root.Issue(leaf())
		mount(next)
		serves(t, port, client, root, next)
	}
	if calls := m.authority.AwaitRequests(t, 0); len(calls) > 0 {
		t.Errorf("the mesh's authority received %d certificate requests", len(calls))
	}
}

// TestOutputCertificates tests that other programs find the certificate in consistent files that
// only their owner can read, and that an agent without a token renews by presenting the last
// certificate.
func TestOutputCertificates(t *testing.T) {
	t.Parallel()
	m := newSecureMesh(t)
	output := filepath.Join(m.dir, "certs")
	m.authority.SetAnswer(authority.Answer{Root: m.root, Lifetime: 3 * time.Second})
	a := m.start(t, "OUTPUT_CERTS=./certs", "PROV_CERT=./certs")
	read := func() (tls.Certificate, error) {
		return tls.LoadX509KeyPair(filepath.Join(output, "cert-chain.pem"), filepath.Join(output, "key.pem"))
	}
	var first tls.Certificate
	serving.Eventually(t, patience, "the first certificate", func() (err error) { first, err = read(); return err })
	for _, name := range []string{"cert-chain.pem", "key.pem", "root-cert.pem"} {
		want := os.FileMode(0o644)
		if name == "key.pem" {
			want = 0o600
		}
		if info, err := os.Stat(filepath.Join(output, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := os.Remove(filepath.Join(m.dir, "var/run/secrets/tokens/istio-token")); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, patience, "the next certificate", func() error {
		next, err := read() // a mismatched pair would be an error
		if err == nil && next.Leaf.SerialNumber.Cmp(first.Leaf.SerialNumber) == 0 {
			err = errors.New("it is still the first certificate")
		}
		return err
	})
	calls := m.authority.AwaitRequests(t, 2)
	last := calls[len(calls)-1]
	if last.Peer == nil || len(last.Metadata.Get("authorization")) > 0 {
		t.Errorf("it is requested with the certificate %v and the token %q", last.Peer,
			last.Metadata.Get("authorization"))
	}
	a.awaitReady(t)
	text := get(a.status, "/stats/prometheus").body
	for _, counted := range []string{`istio_agent_num_outgoing_requests{request_type="csr"}`, "istio_agent_xds_proxy_requests", "istio_agent_xds_proxy_responses"} {
		if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(counted) + " [1-9]").MatchString(text) {
			t.Errorf("%s is not counted", counted)
		}
	}
}
