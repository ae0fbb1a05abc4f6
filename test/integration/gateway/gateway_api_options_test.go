package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// budgetText is a gateway with retries to two services with the same endpoint, one of which has a retry budget. The numbers are the
// ports of the listener and of both backends.
const budgetText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec: {gatewayClassName: istio, listeners: [{name: http, port: %[1]d, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: istio-system}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {value: /free}}]
    retry: {attempts: 3, codes: [503], backoff: 1ms}
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: free, port: 80}]
  - matches: [{path: {value: /limited}}]
    retry: {attempts: 3, codes: [503], backoff: 1ms}
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: limited, port: 80}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: free, namespace: istio-system}
spec: {hosts: [free.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[2]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: limited, namespace: istio-system}
spec: {hosts: [limited.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[3]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: limited, namespace: istio-system}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: limited}]
  retryConstraint: {budget: {percent: 5, interval: 1s}, minRetryRate: {count: 1, interval: 1s}}
`

// busyBackend answers 503 after some time, so that tries overlap. It returns its port and the number of tries.
func busyBackend(t *testing.T) (int, *atomic.Int64) {
	t.Helper()
	tries := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		time.Sleep(200 * time.Millisecond)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port, tries
}

// TestRetryBudget sends concurrent requests to backends that are busy. Without a policy each request is tried four times. With the
// retry budget of an XBackendTrafficPolicy few are retried.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	port := serving.FreePort(t)
	free, freeTries := busyBackend(t)
	limited, limitedTries := busyBackend(t)
	e := gatewayenv.Start(t, gatewayenv.Options{AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`}})
	e.Write("gateway.yaml", fmt.Sprintf(budgetText, port, free, limited))
	plain := caller{port: port}
	for _, path := range []string{"/free", "/limited"} {
		gatewayenv.Eventually(t, path, func() error { return plain.says("http://any.example.com"+path, "503") })
	}
	const requests, tries = 20, 4
	send := func(path string, count *atomic.Int64) int64 {
		before := count.Load()
		var group sync.WaitGroup
		for range requests {
			group.Go(func() {
				if err := plain.says("http://any.example.com"+path, "503"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		return count.Load() - before
	}
	if got := send("/free", freeTries); got != requests*tries {
		t.Errorf("%d tries without a budget, want %d", got, requests*tries)
	}
	// One retry at a time, or 5 % of the requests: those of the first wave, of which each is tried again up to three times.
	if got := send("/limited", limitedTries); got < requests+1 || got > requests+requests {
		t.Errorf("%d tries with a budget, want a few more than %d", got, requests)
	}
}

// optionsText is a gateway with listeners whose TLS has options. The numbers are their ports, and that of the backend.
const optionsText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: istio
  listeners:
  - {name: suites, port: %[1]d, protocol: HTTPS, tls: {certificateRefs: [{name: web}], options: {gateway.istio.io/tls-cipher-suites: "ECDHE-ECDSA-AES128-GCM-SHA256"}}}
  - {name: mutual, port: %[2]d, protocol: HTTPS, tls: {certificateRefs: [{name: web}], options: {gateway.istio.io/tls-terminate-mode: MUTUAL}}}
  - {name: optional, port: %[3]d, protocol: HTTPS, tls: {certificateRefs: [{name: web}], options: {gateway.istio.io/tls-terminate-mode: OPTIONAL_MUTUAL}}}
  - {name: workload-mutual, port: %[5]d, protocol: HTTPS, tls: {options: {gateway.istio.io/tls-terminate-mode: ISTIO_MUTUAL}}}
  - {name: workload-simple, port: %[6]d, protocol: HTTPS, tls: {options: {gateway.istio.io/tls-terminate-mode: ISTIO_SIMPLE}}}
  - {name: typo, port: %[7]d, protocol: HTTPS, tls: {certificateRefs: [{name: web}], options: {gateway.istio.io/tls-terminate-mode: MUTAL}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: istio-system}
spec:
  parentRefs: [{name: edge}]
  rules: [{backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: istio-system}
spec: {hosts: [web.internal], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[4]d}], endpoints: [{address: 127.0.0.1}]}
`

// TestTLSOptions makes handshakes with listeners that have tls.options: cipher suites, modes of client certificates, and the certificate
// of the workload. A listener with an unknown mode is not served.
func TestTLSOptions(t *testing.T) {
	t.Parallel()
	web, client, stranger, workload := newPair(1, "web.example.com"), newPair(2, "client"), newPair(3, "stranger"), newPair(4, "web.example.com")
	files := t.TempDir() // In place of certificates of a CA.
	workload.writeFiles(t, files)
	client.writeFiles(t, filepath.Join(files, mkdir(t, files, "clients")))
	e := gatewayenv.Start(t, gatewayenv.Options{
		Flags: []string{"--secretsPlainText", "loopback"},
		AgentEnv: []string{
			`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`,
			"ISTIO_META_TLS_SERVER_CERT_CHAIN=" + filepath.Join(files, "cert.pem"),
			"ISTIO_META_TLS_SERVER_KEY=" + filepath.Join(files, "key.pem"),
			"ISTIO_META_TLS_SERVER_ROOT_CERT=" + filepath.Join(files, "clients", "cert.pem"),
		},
	})
	ports := serving.FreePorts(t, 6)
	e.Write("certs.yaml", web.secret("web", client))
	e.Write("gateway.yaml", fmt.Sprintf(optionsText, ports[0], ports[1], ports[2], httpBackend(t, "web"), ports[3], ports[4], ports[5]))
	const url = "https://web.example.com/"
	for _, call := range []struct {
		name   string
		port   int
		client *pair
		want   string
	}{
		{"suites", ports[0], nil, "web web.example.com / cert=false"},
		{"MUTUAL with a certificate", ports[1], &client, "web web.example.com / cert=true"},
		{"MUTUAL without a certificate", ports[1], nil, "error"},
		{"OPTIONAL_MUTUAL with a certificate", ports[2], &client, "web web.example.com / cert=true"},
		{"OPTIONAL_MUTUAL without a certificate", ports[2], nil, "web web.example.com / cert=false"},
		{"ISTIO_MUTUAL with a certificate", ports[3], &client, "web web.example.com / cert=true"},
		{"ISTIO_MUTUAL without a certificate", ports[3], nil, "error"},
		{"ISTIO_SIMPLE", ports[4], nil, "web web.example.com / cert=false"},
		{"an unknown mode", ports[5], &client, "error"},
	} {
		t.Run(call.name, func(t *testing.T) {
			c := caller{port: call.port, roots: web, client: call.client}
			if call.port == ports[3] || call.port == ports[4] {
				c.roots = workload
			}
			gatewayenv.Eventually(t, call.name, func() error { return c.says(url, call.want) })
		})
	}
	for suite, accepted := range map[uint16]bool{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: false,
	} {
		err := handshake(ports[0], &tls.Config{RootCAs: web.Pool(), CipherSuites: []uint16{suite}})
		if accepted != (err == nil) {
			t.Errorf("%s: %v, want accepted %t", tls.CipherSuiteName(suite), err, accepted)
		}
	}
	// By itself, Go's client shows no certificate of an authority that the server does not name.
	for _, shown := range []struct {
		pair
		accepted bool
	}{{client, true}, {stranger, false}} {
		certificate := shown.TLS()
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
		for port, server := range map[int]pair{ports[1]: web, ports[2]: web, ports[3]: workload} {
			err := handshake(port, &tls.Config{RootCAs: server.Pool(), GetClientCertificate: show})
			if shown.accepted != (err == nil) {
				t.Errorf("port %d: certificate of %s: %v, want accepted %t", port, shown.Certificate.Subject.CommonName, err, shown.accepted)
			}
		}
	}
}

// mkdir makes a folder below another, and returns its name.
func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// eastWestText is an east-west gateway: of its two listeners, one has the port of network gateways, and the other the option. The
// numbers are the ports of the listeners, of which the label has the first, and that of the backend.
const eastWestText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: edge
  namespace: istio-system
  labels: {topology.istio.io/network: east, networking.istio.io/gatewayPort: "%[1]d"}
spec:
  gatewayClassName: istio
  listeners:
  - {name: label, port: %[1]d, protocol: TLS, hostname: "*.internal", tls: {mode: Passthrough}}
  - {name: option, port: %[2]d, protocol: TLS, hostname: "*.internal", tls: {mode: Passthrough, options: {gateway.istio.io/listener-protocol: auto-passthrough}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: istio-system}
spec: {hosts: [web.internal], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: tls, number: 443, protocol: TLS, targetPort: %[3]d}], endpoints: [{address: 127.0.0.1, labels: {security.istio.io/tlsMode: istio}}]}
`

// TestAutoPassthrough sends TLS connections through an east-west gateway to the service in their server name.
func TestAutoPassthrough(t *testing.T) {
	t.Parallel()
	web := newPair(1, "web.example.com")
	backend := httptest.NewUnstartedServer(http.NotFoundHandler())
	backend.TLS = &tls.Config{Certificates: []tls.Certificate{web.TLS()}, NextProtos: []string{"istio"}}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	e := gatewayenv.Start(t, gatewayenv.Options{
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	ports := serving.FreePorts(t, 2)
	e.Write("gateway.yaml", fmt.Sprintf(eastWestText, ports[0], ports[1], backend.Listener.Addr().(*net.TCPAddr).Port))
	connect := func(port int, server string) error {
		//nolint:gosec // The certificate is compared.
		c, err := tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port), &tls.Config{
			InsecureSkipVerify: true, ServerName: server, NextProtos: []string{"istio"},
		})
		if err != nil {
			return err
		}
		defer c.Close()
		if !c.ConnectionState().PeerCertificates[0].Equal(web.Certificate) {
			return errors.New("another server answered")
		}
		return nil
	}
	for _, port := range ports {
		gatewayenv.Eventually(t, "the service answers", func() error { return connect(port, "outbound_.443_._.web.internal") })
		if connect(port, "web.internal") == nil {
			t.Errorf("port %d: a server name without a cluster reached a service", port)
		}
	}
}

// handshake makes a handshake of TLS 1.2, in which the server verifies a client's certificate before it ends.
func handshake(port int, config *tls.Config) error {
	config.ServerName, config.MaxVersion = "web.example.com", tls.VersionTLS12
	c, err := tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port), config)
	if err != nil {
		return err
	}
	return c.Close()
}
