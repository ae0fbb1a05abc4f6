package requests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/nats"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait.
const patience = 90 * time.Second

// interval is how often routes are repeated. They expire after threshold.
const (
	interval  = time.Second
	threshold = 3 * interval
)

// startBackend starts an HTTP server that answers with its name, and returns its port. With a
// certificate it serves HTTPS.
func startBackend(t *testing.T, name string, certificate *pki.Pair) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.URL.Path)
	}))
	if certificate != nil {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.TLS()}, MinVersion: tls.VersionTLS12}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// mesh is a gateway whose control plane reads routes from a NATS server.
type mesh struct {
	t       *testing.T
	server  *nats.Server
	emitter *nats.Emitter
	edge    *gatewayenv.Edge
	client  *http.Client
	url     string // of the gateway
}

func startMesh(t *testing.T, flags ...string) *mesh {
	t.Helper()
	nats.Require(t)
	s := nats.Start(t, nats.Options{User: "router", Password: "secret"})
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte("router:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &mesh{t: t, server: s, emitter: s.StartEmitter(interval / 2)}
	m.edge = gatewayenv.Start(t, gatewayenv.Options{Flags: append([]string{
		"--registries=CloudFoundry", "--cloudFoundryNATS=" + s.URL, "--cloudFoundryCredentialsFile=" + credentials,
		"--cloudFoundryRegisterInterval=" + interval.String(), "--cloudFoundryStaleThreshold=" + threshold.String(),
	}, flags...)})
	port := serving.FreePort(t)
	m.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	m.edge.Write("gateway.yaml", fmt.Sprintf(gatewayObjects, port))
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	m.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return m
}

// gatewayObjects route requests by host to the services of the routes. A path of web.test has a
// service of its own.
const gatewayObjects = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gateway, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: %d, name: http, protocol: HTTP}
    hosts: ["*"]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec:
  hosts: [web.test]
  gateways: [istio-system/gateway]
  http:
  - match: [{uri: {prefix: /api}}]
    route: [{destination: {host: api.cf-path.web.test}}]
  - route: [{destination: {host: web.test}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: secure, namespace: default}
spec:
  hosts: [secure.test]
  gateways: [istio-system/gateway]
  http:
  - route: [{destination: {host: secure.test}}]
`

// get returns the body of the answer. A status other than 200 is an error.
func (m *mesh) get(ctx context.Context, host, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+path, nil)
	if err != nil {
		return "", err
	}
	r.Host = host
	resp, err := m.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), err
}

// await waits until exactly these answers come for a host.
func (m *mesh) await(host, path string, answers ...string) {
	m.t.Helper()
	serving.Eventually(m.t, patience, fmt.Sprintf("%s%s is answered by %v", host, path, answers), func() error {
		seen := map[string]bool{}
		for range 20 {
			got, err := m.get(m.t.Context(), host, path)
			if err != nil {
				return err
			}
			seen[got] = true
		}
		for _, a := range answers {
			if !seen[a] || len(seen) != len(answers) {
				return fmt.Errorf("answers %v", seen)
			}
		}
		return nil
	})
}

func instance(host string, port int, id string) nats.Route {
	return nats.Route{Host: "127.0.0.1", Port: port, URIs: []string{host}, App: "app", PrivateInstanceID: id}
}

// TestRequests sends requests to routes, and keeps sending while NATS is killed for longer than routes
// live, restarts empty, the emitter fails, and the control plane restarts. No request may fail.
func TestRequests(t *testing.T) {
	m := startMesh(t)
	m.emitter.Register("one", instance("web.test", startBackend(t, "one", nil), "guid-1"))
	m.emitter.Register("two", instance("web.test", startBackend(t, "two", nil), "guid-2"))
	m.emitter.Register("api", instance("web.test/api", startBackend(t, "api", nil), "guid-3"))
	m.await("web.test", "/", "one /", "two /")
	m.await("web.test", "/api/v1", "api /api/v1")

	load := m.startLoad("web.test")
	for range 2 {
		m.server.Kill()
		m.passTime(2 * threshold)
		m.server.Launch()
		m.passTime(2 * threshold)
	}
	m.emitter.SetSilent(true)
	m.passTime(2 * threshold)
	m.emitter.SetSilent(false)
	three := startBackend(t, "three", nil)
	m.emitter.Register("three", instance("web.test", three, "guid-4"))
	m.await("web.test", "/", "one /", "two /", "three /")
	m.emitter.Unregister("two") // the backend runs on, as Cloud Foundry's drain does
	m.await("web.test", "/", "one /", "three /")
	m.edge.Restart()
	m.await("web.test", "/", "one /", "three /")
	sent, failed, last := load()
	t.Logf("%d requests, %d failed", sent, failed)
	if failed > 0 || sent < 200 {
		t.Errorf("%d of %d requests failed, the last with %v", failed, sent, last)
	}
	m.emitter.Unregister("one")
	m.emitter.Unregister("three")
	serving.Eventually(t, patience, "the route is removed", func() error {
		if body, err := m.get(t.Context(), "web.test", "/"); err == nil || !strings.Contains(err.Error(), "503") {
			return fmt.Errorf("%q, %w", body, err)
		}
		return nil
	})
}

// passTime waits for a time in which nothing is to happen but requests.
func (m *mesh) passTime(d time.Duration) {
	select {
	case <-m.t.Context().Done():
	case <-time.After(d):
	}
}

// startLoad sends requests one after another until the returned function is called, which returns
// their number, that of failed ones, and the last error.
func (m *mesh) startLoad(host string) func() (sent, failed int64, last error) {
	var requests, failures atomic.Int64
	var last atomic.Pointer[error]
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			requests.Add(1)
			if _, err := m.get(m.t.Context(), host, "/"); err != nil {
				failures.Add(1)
				last.Store(&err)
			}
		}
	}()
	m.t.Cleanup(func() { cancel(); <-done })
	return func() (int64, int64, error) {
		cancel()
		<-done
		if err := last.Load(); err != nil {
			return requests.Load(), failures.Load(), *err
		}
		return requests.Load(), failures.Load(), nil
	}
}

// TestBackendTLS calls instances at ports with TLS. An instance whose certificate has another name than
// it was registered with receives no requests.
func TestBackendTLS(t *testing.T) {
	dir := t.TempDir()
	authority := pki.Authority("diego")
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, authority.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate := func(name string) *pki.Pair {
		return authority.Issue(&x509.Certificate{DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	}
	m := startMesh(t, "--cloudFoundryBackendTLS")
	m.edge.Write("rule.yaml", fmt.Sprintf(destinationRule, roots))
	secure := func(port int, san string) nats.Route {
		r := instance("secure.test", 1, san) // nothing listens on the port without TLS
		r.TLSPort, r.ServerCertDomainSAN = port, san
		return r
	}
	m.emitter.Register("one", secure(startBackend(t, "one", certificate("guid-1")), "guid-1"))
	m.emitter.Register("two", secure(startBackend(t, "two", certificate("guid-2")), "guid-2"))
	m.await("secure.test", "/", "one /", "two /")
	m.emitter.Unregister("two")
	m.emitter.Unregister("one")
	m.emitter.Register("one", secure(startBackend(t, "one", certificate("guid-1")), "other"))
	serving.Eventually(t, patience, "the certificate is refused", func() error {
		if body, err := m.get(t.Context(), "secure.test", "/"); err == nil || !strings.Contains(err.Error(), "remote connection failure") {
			return fmt.Errorf("%q, %w", body, err)
		}
		return nil
	})
}

// destinationRule originates TLS. Since it has an SNI, Envoy verifies the names that instances were
// registered with and not the request's host.
const destinationRule = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: secure, namespace: default}
spec:
  host: secure.test
  trafficPolicy:
    tls: {mode: SIMPLE, caCertificates: %s, sni: secure.test}
`
