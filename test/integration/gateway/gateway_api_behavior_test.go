package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// behaviorText is a Gateway, and routes for features that the conformance suite does not cover. The
// numbers are the ports of HTTP and HTTPS, of the backends "main" and "mirror", and of HTTPS with
// optional client certificates, followed by CA certificates.
const behaviorText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: istio
  tls:
    frontend:
      default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}
      perPort:
      - {port: %[5]d, tls: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
  listeners:
  - {name: http, port: %[1]d, protocol: HTTP}
  - {name: web, port: %[2]d, protocol: HTTPS, hostname: web.example.com, tls: {certificateRefs: [{name: web-cert}]}}
  - {name: other, port: %[2]d, protocol: HTTPS, hostname: other.example.com, tls: {certificateRefs: [{name: web-cert}]}}
  - {name: fallback, port: %[5]d, protocol: HTTPS, hostname: web.example.com, tls: {certificateRefs: [{name: web-cert}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: secure, namespace: istio-system, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {parentRefs: [{name: edge}], hostnames: [web.example.com, other.example.com], rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: filters, namespace: istio-system}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [filters.example.com]
  rules:
  - matches: [{path: {value: /see-other}, method: POST}]
    filters: [{type: RequestRedirect, requestRedirect: {statusCode: 303, path: {type: ReplaceFullPath, replaceFullPath: /result}}}]
  - matches: [{path: {value: /cors}}]
    filters: [{type: CORS, cors: {allowOrigins: ["https://app.example.com", "https://*.apps.example.com"], allowMethods: [GET, PUT], allowHeaders: [x-a], exposeHeaders: [x-b], allowCredentials: true, maxAge: 600}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]
  - matches: [{path: {value: /retry}}]
    retry: {codes: [503], attempts: 2, backoff: 10ms}
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]
  - matches: [{path: {value: /mirror-half}}]
    filters: [{type: RequestMirror, requestMirror: {percent: 50, backendRef: {group: networking.istio.io, kind: Hostname, name: mirror.mesh, port: 80}}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]
  - matches: [{path: {value: /mirror-fraction}}]
    filters: [{type: RequestMirror, requestMirror: {fraction: {numerator: 1, denominator: 4}, backendRef: {group: networking.istio.io, kind: Hostname, name: mirror.mesh, port: 80}}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]
  - matches: [{path: {value: /mirror-none}}]
    filters: [{type: RequestMirror, requestMirror: {percent: 0, backendRef: {group: networking.istio.io, kind: Hostname, name: mirror.mesh, port: 80}}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: younger, namespace: istio-system, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: [merge.example.com]
  rules:
  - {matches: [{path: {value: /}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: younger-prefix}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same/longer}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: younger-longer}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {type: Exact, value: /same/longer/exact}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: younger-exact}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}, method: PUT}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: younger-method}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: younger-same}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: older, namespace: istio-system, creationTimestamp: "2026-02-01T00:00:00Z"}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  hostnames: ["*.example.com", merge.example.com]
  rules:
  - {matches: [{path: {value: /same}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: older-same}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: older-second}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}, headers: [{name: a, value: "1"}]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: older-header}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}, headers: [{name: a, value: "1"}, {name: b, value: "1"}]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: older-headers}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
  - {matches: [{path: {value: /same}, queryParams: [{name: q, value: "1"}]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-rule, value: older-query}]}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: main.mesh, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: main, namespace: istio-system}
spec: {hosts: [main.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[3]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mirror, namespace: istio-system}
spec: {hosts: [mirror.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[4]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: authority, namespace: istio-system}
data:
  ca.crt: |
    %[6]s
---
`

// countingBackend answers with the rule that matched. It counts requests by path, and answers requests with the header x-fail with 503
// as often as the header demands.
type countingBackend struct {
	mu    sync.Mutex
	paths map[string]int
}

func (b *countingBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.paths[r.URL.Path]++
	n := b.paths[r.URL.Path]
	b.mu.Unlock()
	if fail, err := strconv.Atoi(r.Header.Get("X-Fail")); err == nil && n <= fail {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "rule=%s", r.Header.Get("X-Rule"))
}

// count returns the number of requests to a path.
func (b *countingBackend) count(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths[path]
}

// start starts a server, and returns its port.
func (b *countingBackend) start(t *testing.T) int {
	t.Helper()
	b.paths = map[string]int{}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// behavior is a gateway with the routes of behaviorText.
type behavior struct {
	*testing.T
	http, https, fallback int
	main, mirror          countingBackend
	web, client, stranger pair
}

// send sends a request with headers "name: value", and returns its status, headers and body.
func (b *behavior) send(method, url string, headers ...string) (int, http.Header, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(b.http))
	}}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body := make([]byte, 1024)
	n, _ := resp.Body.Read(body)
	return resp.StatusCode, resp.Header, string(body[:n])
}

func startBehavior(t *testing.T) *behavior {
	t.Helper()
	e := gatewayenv.Start(t, gatewayenv.Options{
		Flags:    []string{"--secretsPlainText", "loopback"},
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	ports := serving.FreePorts(t, 3)
	b := &behavior{
		T: t, http: ports[0], https: ports[1], fallback: ports[2],
		web: newPair(1, "web.example.com", "other.example.com"), client: newPair(2, "client"), stranger: newPair(3, "stranger"),
	}
	authority := strings.ReplaceAll(strings.TrimSpace(string(b.client.CertificatePEM())), "\n", "\n    ")
	e.Write("gateway.yaml", fmt.Sprintf(behaviorText, b.http, b.https, b.main.start(t), b.mirror.start(t), b.fallback, authority)+b.web.secret("web-cert"))
	gatewayenv.Eventually(t, "the gateway forwards", func() error {
		return caller{port: b.http}.says("http://merge.example.com/", "rule=younger-prefix")
	})
	return b
}

// TestGatewayAPIBehavior checks features that the conformance suite does not cover: filters,
// retries, mirrors, the precedence and merging of rules, client certificates, and misdirected
// requests.
func TestGatewayAPIBehavior(t *testing.T) {
	t.Parallel()
	b := startBehavior(t)
	for name, run := range map[string]func(*behavior){
		"303 redirect": (*behavior).testSeeOther, "CORS": (*behavior).testCORS, "retries": (*behavior).testRetries,
		"mirrors": (*behavior).testMirrors, "precedence": (*behavior).testPrecedence,
		"client certificates": (*behavior).testClientCertificates, "misdirected requests": (*behavior).testMisdirected,
	} {
		t.Run(name, func(t *testing.T) {
			b.T = t
			run(b)
		})
	}
}

func (b *behavior) testSeeOther() {
	status, header, _ := b.send(http.MethodPost, "http://filters.example.com/see-other?q=1")
	want := fmt.Sprintf("http://filters.example.com:%d/result?q=1", b.http)
	if status != http.StatusSeeOther || header.Get("Location") != want && header.Get("Location") != "http://filters.example.com/result?q=1" {
		b.Errorf("status %d, location %q", status, header.Get("Location"))
	}
	if status, _, _ := b.send(http.MethodGet, "http://filters.example.com/see-other"); status != http.StatusNotFound {
		b.Errorf("a GET, which the rule does not match: status %d, want 404", status)
	}
}

func (b *behavior) testCORS() {
	const url = "http://filters.example.com/cors"
	for _, origin := range []string{"https://app.example.com", "https://a.apps.example.com"} {
		status, header, _ := b.send(http.MethodOptions, url, "Origin: "+origin, "Access-Control-Request-Method: PUT")
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Methods": "GET,PUT", "Access-Control-Allow-Headers": "x-a",
			"Access-Control-Allow-Credentials": "true", "Access-Control-Max-Age": "600",
		} {
			if got := strings.ReplaceAll(header.Get(name), ", ", ","); status != http.StatusOK && status != http.StatusNoContent || got != want {
				b.Errorf("preflight of %s: status %d, %s %q, want %q", origin, status, name, got, want)
			}
		}
	}
	_, header, body := b.send(http.MethodGet, url, "Origin: https://app.example.com")
	if header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || header.Get("Access-Control-Expose-Headers") != "x-b" || body == "" {
		b.Errorf("request: %v, %q", header, body)
	}
	for _, origin := range []string{"https://evil.example.com", "http://app.example.com", "https://apps.example.com.evil.com"} {
		if _, header, _ := b.send(http.MethodOptions, url, "Origin: "+origin, "Access-Control-Request-Method: PUT"); header.Get("Access-Control-Allow-Origin") != "" {
			b.Errorf("origin %s is allowed: %v", origin, header)
		}
	}
}

func (b *behavior) testRetries() {
	for _, c := range []struct {
		path               string
		fail, status, sent int
	}{{"/retry/once", 1, 200, 2}, {"/retry/twice", 2, 200, 3}, {"/retry/often", 9, 503, 3}, {"/cors/never", 9, 503, 1}} {
		status, _, _ := b.send(http.MethodGet, "http://filters.example.com"+c.path, "X-Fail: "+strconv.Itoa(c.fail))
		if n := b.main.count(c.path); status != c.status || n != c.sent {
			b.Errorf("%s: status %d after %d requests, want %d after %d", c.path, status, n, c.status, c.sent)
		}
	}
}

// testMirrors sends so many requests that a share of a half or a quarter is outside of its bounds once in a million runs.
func (b *behavior) testMirrors() {
	const requests = 400
	for _, c := range []struct {
		path        string
		least, most int
	}{{"/mirror-half", 150, 250}, {"/mirror-fraction", 58, 142}, {"/mirror-none", 0, 0}} {
		for range requests {
			if status, _, _ := b.send(http.MethodGet, "http://filters.example.com"+c.path); status != http.StatusOK {
				b.Fatalf("%s: status %d", c.path, status)
			}
		}
		gatewayenv.Eventually(b.T, c.path, func() error {
			if n := b.mirror.count(c.path); n < c.least || n > c.most {
				return fmt.Errorf("%d of %d requests were mirrored, want %d to %d", n, requests, c.least, c.most)
			}
			return nil
		})
		if n := b.main.count(c.path); n != requests {
			b.Errorf("%s: %d requests were forwarded", c.path, n)
		}
	}
}

func (b *behavior) testPrecedence() {
	for _, c := range []struct {
		method, url, want string
		headers           []string
	}{
		{"GET", "merge.example.com/other", "younger-prefix", nil},
		{"GET", "merge.example.com/same", "older-same", nil},
		{"GET", "merge.example.com/same/longer", "younger-longer", nil},
		{"GET", "merge.example.com/same/longer/exact", "younger-exact", nil},
		{"GET", "merge.example.com/same/longer/exact/not", "younger-longer", nil},
		{"PUT", "merge.example.com/same", "younger-method", nil},
		{"PUT", "merge.example.com/same", "younger-method", []string{"a: 1", "b: 1"}},
		{"GET", "merge.example.com/same", "older-header", []string{"a: 1"}},
		{"GET", "merge.example.com/same", "older-headers", []string{"a: 1", "b: 1"}},
		{"GET", "merge.example.com/same?q=1", "older-query", nil},
		{"GET", "merge.example.com/same?q=1", "older-header", []string{"a: 1"}},
		{"GET", "merge.example.com/same/longer", "younger-longer", []string{"a: 1", "b: 1"}},
		{"GET", "any.example.com/same", "older-same", nil},
	} {
		if _, _, body := b.send(c.method, "http://"+c.url, c.headers...); body != "rule="+c.want {
			b.Errorf("%s %s with %q: %q, want rule %s", c.method, c.url, c.headers, body, c.want)
		}
	}
}

func (b *behavior) testClientCertificates() {
	const url = "https://web.example.com/"
	for _, c := range []struct {
		what   string
		caller caller
		want   string
	}{
		{"a valid certificate", caller{b.https, b.web, &b.client}, "rule="},
		{"no certificate", caller{b.https, b.web, nil}, "error"},
		{"a certificate of another authority", caller{b.https, b.web, &b.stranger}, "error"},
		{"a valid certificate, fallback", caller{b.fallback, b.web, &b.client}, "rule="},
		{"no certificate, fallback", caller{b.fallback, b.web, nil}, "rule="},
		{"a certificate of another authority, fallback", caller{b.fallback, b.web, &b.stranger}, "rule="},
	} {
		gatewayenv.Eventually(b.T, c.what, func() error { return c.caller.says(url, c.want) })
	}
}

// testMisdirected sends requests for another listener's hostname over a connection with the server name of the first.
func (b *behavior) testMisdirected() {
	roots := x509.NewCertPool()
	roots.AddCert(b.web.Certificate)
	for host, want := range map[string]int{"web.example.com": http.StatusOK, "other.example.com": http.StatusMisdirectedRequest, "example.org": http.StatusNotFound} {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "web.example.com", Certificates: []tls.Certificate{b.client.TLS()}}}
			return d.DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(b.https))
		}}}
		resp, err := client.Get("https://" + host + "/")
		if err != nil {
			b.Error(err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			b.Errorf("request for %s over a connection for web.example.com: status %d, want %d", host, resp.StatusCode, want)
		}
	}
}
