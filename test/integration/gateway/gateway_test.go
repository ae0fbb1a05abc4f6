package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayText contains the user's objects: one Gateway with a server of each kind, and its routes.
// The numbers are ports: of HTTP, HTTPS, TLS, TCP, then those of the backends (HTTP, TLS, TCP),
// then of redirection. The last parameter is the gateway's own folder.
const gatewayText = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*.example.com"]}
  - {port: {number: %[8]d, name: redirect, protocol: HTTP}, hosts: ["*.example.com"], tls: {httpsRedirect: true}}
  - {port: {number: %[2]d, name: https-web, protocol: HTTPS}, hosts: [web.example.com], tls: {mode: SIMPLE, credentialName: web-cert}}
  - {port: {number: %[2]d, name: https-wild, protocol: HTTPS}, hosts: ["*.wild.example.com"], tls: {mode: SIMPLE, credentialName: wild-cert}}
  - {port: {number: %[2]d, name: https-mutual, protocol: HTTPS}, hosts: [mutual.example.com], tls: {mode: MUTUAL, credentialName: mutual-cert}}
  - {port: {number: %[2]d, name: https-lost, protocol: HTTPS}, hosts: [lost.example.com], tls: {mode: SIMPLE, credentialName: no-such-cert}}
  - {port: {number: %[2]d, name: https-files, protocol: HTTPS}, hosts: [files.example.com], tls: {mode: SIMPLE, serverCertificate: %[9]s/cert.pem, privateKey: %[9]s/key.pem}}
  - {port: {number: %[3]d, name: tls, protocol: TLS}, hosts: [pass.example.com], tls: {mode: PASSTHROUGH}}
  - {port: {number: %[4]d, name: tcp, protocol: TCP}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec:
  hosts: [web.example.com, "*.wild.example.com", mutual.example.com, lost.example.com, files.example.com]
  gateways: [istio-system/public]
  http:
  - match: [{uri: {prefix: /teapot}}]
    directResponse: {status: 418}
  - route: [{destination: {host: web.default.svc.cluster.local}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: connections, namespace: default}
spec:
  hosts: ["*"]
  gateways: [istio-system/public]
  tls: [{match: [{sniHosts: [pass.example.com]}], route: [{destination: {host: tls.default.svc.cluster.local}}]}]
  tcp: [{match: [{port: %[4]d}], route: [{destination: {host: tcp.default.svc.cluster.local}}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 8000, protocol: HTTP, targetPort: %[5]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tls, namespace: default}
spec: {hosts: [tls.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: tls, number: 443, protocol: TLS, targetPort: %[6]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tcp, namespace: default}
spec: {hosts: [tcp.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: tcp, number: 9000, protocol: TCP, targetPort: %[7]d}], endpoints: [{address: 127.0.0.1}]}
`

// TestGateway calls one gateway in every way. Its certificates are Secrets in the folder. A new
// version of one is used for new connections, while existing ones continue.
func TestGateway(t *testing.T) {
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--secretsPlainText", "loopback"}})
	ports := serving.FreePorts(t, 5)
	httpPort, httpsPort, tlsPort, tcpPort, redirectPort := ports[0], ports[1], ports[2], ports[3], ports[4]
	web, wild, mutual, client := newPair(1, "web.example.com"), newPair(2, "*.wild.example.com"), newPair(3, "mutual.example.com"), newPair(4, "client")
	behind := newPair(5, "pass.example.com")
	e.Write("web-cert.yaml", web.secret("web-cert"))
	e.Write("other-certs.yaml", wild.secret("wild-cert")+"---\n"+mutual.secret("mutual-cert", client))
	onDisk, files := newPair(6, "files.example.com"), t.TempDir()
	onDisk.writeFiles(t, files)
	e.Write("gateway.yaml", fmt.Sprintf(gatewayText, httpPort, httpsPort, tlsPort, tcpPort, httpBackend(t, "web"), tlsBackend(t, "behind", behind), tcpBackend(t), redirectPort, files))

	plain := caller{port: httpPort}
	gatewayenv.Eventually(t, "HTTP", func() error {
		return plain.says("http://web.example.com/a", "web web.example.com /a cert=false proto=http")
	})
	for _, call := range []struct {
		name string
		caller
		url, want string
	}{
		{"a route of the same host", plain, "http://web.example.com/teapot", "418"},
		{"a host with a port", plain, "http://web.example.com:" + strconv.Itoa(httpPort) + "/a", "web web.example.com:" + strconv.Itoa(httpPort) + " /a"},
		{"a host that nothing is bound to", plain, "http://other.example.com/", "404"},
		{"a host of no server", plain, "http://example.org/", "404"},
		{"plain text where HTTPS is wanted", caller{port: redirectPort}, "http://web.example.com/a", "301 https://web.example.com/a"},
		{"HTTPS", caller{port: httpsPort, roots: web}, "https://web.example.com/a", "web web.example.com /a cert=false proto=https"},
		{"a name under a wildcard", caller{port: httpsPort, roots: wild}, "https://a.wild.example.com/a", "web a.wild.example.com /a"},
		{"a client's certificate", caller{port: httpsPort, roots: mutual, client: &client}, "https://mutual.example.com/a", "web mutual.example.com /a cert=true"},
		{"no certificate where one is wanted", caller{port: httpsPort, roots: mutual}, "https://mutual.example.com/a", "error"},
		{"another client's certificate", caller{port: httpsPort, roots: mutual, client: &wild}, "https://mutual.example.com/a", "error"},
		{"a certificate in the gateway's own files", caller{port: httpsPort, roots: onDisk}, "https://files.example.com/a", "web files.example.com /a"},
		{"a server without its Secret", caller{port: httpsPort, roots: web}, "https://lost.example.com/a", "error"},
		{"a name of no server", caller{port: httpsPort, roots: web}, "https://none.example.com/a", "error"},
		{"TLS that is handed on", caller{port: tlsPort, roots: behind}, "https://pass.example.com/", "behind"},
	} {
		t.Run(call.name, func(t *testing.T) {
			gatewayenv.Eventually(t, call.url, func() error { return call.says(call.url, call.want) })
		})
	}
	t.Run("TCP, where the server speaks first", func(t *testing.T) { gatewayenv.Eventually(t, "echo", func() error { return echo(tcpPort) }) })
	t.Run("a new version of a Secret", func(t *testing.T) {
		next := newPair(77, "web.example.com")
		e.Write("web-cert.yaml", next.secret("web-cert"))
		gatewayenv.Eventually(t, "the new certificate", func() error { return caller{port: httpsPort, roots: next}.says("https://web.example.com/a", "web") })
		if serial := serial(t, httpsPort, "a.wild.example.com"); serial.Int64() != 2 {
			t.Errorf("another server's certificate is number %s now", serial)
		}
	})
	t.Run("a new version of a file", func(t *testing.T) {
		next := newPair(78, "files.example.com")
		next.writeFiles(t, files)
		gatewayenv.Eventually(t, "the new certificate", func() error { return caller{port: httpsPort, roots: next}.says("https://files.example.com/a", "web") })
	})
	t.Run("an edit of one VirtualService", func(t *testing.T) {
		e.Write("edit.yaml", `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: later, namespace: default}
spec: {hosts: [web.example.com], gateways: [istio-system/public], http: [{match: [{uri: {prefix: /later}}], directResponse: {status: 299}}]}
`)
		gatewayenv.Eventually(t, "the new route", func() error { return plain.says("http://web.example.com/later", "299") })
		if err := plain.says("http://web.example.com/a", "web"); err != nil {
			t.Error(err)
		}
	})
}

// TestKeysAreSentToAuthorizedProxiesOnly: unless it is allowed, no private key is sent in plain
// text, and only listeners that need a key fail.
func TestKeysAreSentToAuthorizedProxiesOnly(t *testing.T) {
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{})
	ports := serving.FreePorts(t, 5)
	web := newPair(1, "web.example.com")
	e.Write("web-cert.yaml", web.secret("web-cert"))
	e.Write("gateway.yaml", fmt.Sprintf(gatewayText, ports[0], ports[1], ports[2], ports[3], httpBackend(t, "web"), 1, 2, ports[4], t.TempDir()))
	gatewayenv.Eventually(t, "HTTP", func() error { return caller{port: ports[0]}.says("http://web.example.com/a", "web") })
	gatewayenv.Eventually(t, "HTTPS listens", func() error {
		r, err := http.Get("http://" + e.Admin + "/listeners")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if list, _ := io.ReadAll(r.Body); !strings.Contains(string(list), "0.0.0.0_"+strconv.Itoa(ports[1])+"::") {
			return fmt.Errorf("Envoy has the listeners %s", list)
		}
		return nil
	})
	if err := (caller{port: ports[1], roots: web}).says("https://web.example.com/a", "error"); err != nil {
		t.Errorf("HTTPS without its key: %v", err)
	}
}

// caller calls a port of the gateway, whichever port the URL has.
type caller struct {
	port   int
	roots  pair
	client *pair
}

// says makes a request, and returns an error unless the answer begins with want: its body, or a
// status other than 200 (with the location of a redirect). "error" means that no answer arrives.
func (c caller) says(url, want string) error {
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if c.roots.Pair != nil {
		config.RootCAs = c.roots.Pool()
	}
	if c.client != nil {
		config.Certificates = []tls.Certificate{c.client.TLS()}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(c.port))
	}}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var got string
	switch r, err := client.Get(url); {
	case errors.Is(err, context.DeadlineExceeded):
		got = "no answer"
	case err != nil:
		got = "error: " + err.Error()
	case r.StatusCode != http.StatusOK:
		got = strings.TrimSpace(strconv.Itoa(r.StatusCode) + " " + r.Header.Get("Location"))
		r.Body.Close()
	default:
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		r.Body.Close()
	}
	if !strings.HasPrefix(got, want) {
		return fmt.Errorf("%s: %q, want %q", url, got, want)
	}
	return nil
}

// serial returns the number of the certificate that is shown for a server name.
func serial(t *testing.T, port int, name string) *big.Int {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber
}

func echo(port int) error {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
		return fmt.Errorf("%q, %w", line, err)
	}
	if _, err := fmt.Fprint(c, "and back\n"); err != nil {
		return err
	}
	if line, err := r.ReadString('\n'); err != nil || line != "and back\n" {
		return fmt.Errorf("%q, %w", line, err)
	}
	return nil
}
