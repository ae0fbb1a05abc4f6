package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// entry is a ServiceEntry NAME.lab of one HTTP port, with endpoints "ip:port", and the policy of a
// DestinationRule for it.
func entry(name, policy string, endpoints ...string) string {
	host := name + ".lab"
	text := fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: %s}\nspec:\n  hosts: [%s]\n  resolution: STATIC\n  ports: [{number: 80, name: http, protocol: HTTP}]\n  endpoints:\n",
		name, host)
	for _, e := range endpoints {
		ip, port, _ := net.SplitHostPort(e)
		text += fmt.Sprintf("  - {address: %s, ports: {http: %s}, serviceAccount: server}\n", ip, port)
	}
	return text + fmt.Sprintf(
		"---\nkind: DestinationRule\nmetadata: {name: %s}\nspec:\n  host: %s\n  %s\n---\n", name,
		host, policy)
}

// cluster80 is the cluster of an entry.
func cluster80(name string) string { return "outbound|80||" + name + ".lab" }

// says starts a server on loopback that answers with a text, and returns its address.
func says(t *testing.T, status int, text string) string {
	t.Helper()
	return serves(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	})
}

func serves(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestEnvoyBalances checks load balancers, outlier detection, limits, and rules for selected
// proxies with requests through a real Envoy.
func TestEnvoyBalances(t *testing.T) {
	a, b, c, broken := says(t, 200, "a"), says(t, 200, "b"), says(t, 200, "c"), says(t, 503, "broken")
	release := make(chan struct{})
	slow := serves(t, func(http.ResponseWriter, *http.Request) { <-release })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free) // before the server, which waits for its requests
	peer := serves(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	version := serves(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	hashed := func(by string) string {
		return "trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-hash, " + by + "}}}"
	}
	ejects := func(when string) string {
		return "trafficPolicy: {outlierDetection: {" + when + ", interval: 0.01s, baseEjectionTime: 600s, maxEjectionPercent: 100}}"
	}
	pool := func(settings string) string { return "trafficPolicy: {connectionPool: {" + settings + "}}" }
	l := newLab(t, entry("ring", hashed("ringHash: {minimumRingSize: 2048}"), a, b, c)+
		entry("maglev", hashed("maglev: {tableSize: 1021}"), a, b, c)+
		entry("errors", ejects("consecutive5xxErrors: 1"), a, broken)+
		entry("gateway-errors", ejects("consecutive5xxErrors: 0, consecutiveGatewayErrors: 1"), a, broken)+
		entry("codes", ejects("consecutive5xxErrors: 1, outlierDetectionHttpErrorCodes: [503, 429]"), a, broken)+
		entry(
			"local",
			ejects("consecutive5xxErrors: 0, splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 1"),
			a,
			serving.FreeAddress(t),
		)+
		entry("all-broken", ejects("consecutive5xxErrors: 1"), broken)+
		entry("all-broken-panic", ejects("consecutive5xxErrors: 1, minHealthPercent: 100"), broken)+
		entry("slow", pool("tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}"), slow)+
		entry("kept", pool("tcp: {maxConnections: 9}"), peer)+
		entry("each", pool("http: {maxRequestsPerConnection: 1}"), peer)+
		entry("upgraded", pool("http: {h2UpgradePolicy: UPGRADE}"), version)+
		entry("selected", "workloadSelector: {matchLabels: {app: lab}}\n  subsets: [{name: v1}]", a)+
		entry("others", "workloadSelector: {matchLabels: {app: other}}\n  subsets: [{name: v1}]", a), [3]string{})

	l.keepsTo("ring")
	l.keepsTo("maglev")
	for _, name := range []string{"errors", "gateway-errors", "codes", "local"} {
		l.ejects(name)
	}
	l.fails(cluster80("all-broken"), "", "no_healthy_upstream")
	l.fails(cluster80("all-broken-panic"), "", "broken")
	l.reaches("outbound|80|v1|selected.lab", "", "a")
	l.fails("outbound|80|v1|others.lab", "", "cluster_not_found")
	if first, second := l.get(cluster80("kept"), "", ""), l.get(cluster80("kept"), "", ""); first != second ||
		first.status != 200 {
		t.Errorf("a connection is not used again: %+v, %+v", first, second)
	}
	if first, second := l.get(cluster80("each"), "", ""), l.get(cluster80("each"), "", ""); first.body == second.body || first.status != 200 {
		t.Errorf("a connection is used again: %+v", first)
	}
	l.reaches(cluster80("upgraded"), "", "HTTP/2.0")
	l.limits("slow", free)
	if n := l.pusher.Reports().Nacks(); len(n) > 0 {
		t.Errorf("Envoy refused %+v", n)
	}
}

// keepsTo checks that requests with one hash reach one of three endpoints, and requests with
// different hashes all of them.
func (l *lab) keepsTo(name string) {
	l.t.Helper()
	by, used := map[string]string{}, map[string]bool{}
	const users = 60 // with random ports, one of three endpoints has none of 20 in 1 of 1,000 runs
	for i := range 2 * users {
		user := fmt.Sprintf("user-%d", i%users)
		got := l.get(cluster80(name), "", user)
		if was, again := by[user]; got.status != 200 || again && was != got.body {
			l.t.Errorf("%s: user %s reached %+v, and %q before", name, user, got, was)
		}
		by[user], used[got.body] = got.body, true
	}
	if len(used) != 3 {
		l.t.Errorf("%s: %d users reached %d of 3 endpoints", name, users, len(used))
	}
}

// ejects waits until only the good endpoint is left.
func (l *lab) ejects(name string) {
	l.t.Helper()
	l.until(name+" has only the good endpoint left", func() error {
		for range 10 {
			if a := l.get(cluster80(name), "", ""); a.status != 200 {
				return fmt.Errorf("%+v", a)
			}
		}
		return nil
	})
}

// limits sends requests to a cluster that serves one, and lets one wait: the others are turned
// away. free has them served.
func (l *lab) limits(name string, free func()) {
	l.t.Helper()
	const requests = 6
	answers := make(chan answer, requests)
	for range requests {
		go func() { answers <- l.get(cluster80(name), "", "") }()
	}
	for range requests - 2 {
		if a := <-answers; a.status != 503 || !strings.Contains(a.flags, "overflow") {
			l.t.Errorf("a request beyond the limits: %+v", a)
		}
	}
	free()
	served := 0
	for range 2 {
		if a := <-answers; a.status == 200 {
			served++
		}
	}
	if served == 0 {
		l.t.Error("no request within the limits was served")
	}
}

// TestEnvoySendsProxyProtocol checks that a real Envoy sends the client's address by the PROXY
// protocol.
func TestEnvoySendsProxyProtocol(t *testing.T) {
	listen := func() string {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		go func() {
			for {
				conn, err := server.Accept()
				if err != nil {
					return
				}
				first := make([]byte, 12)
				_, _ = io.ReadFull(conn, first)
				_, _ = conn.Read(make([]byte, 4096))
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%.5q", first)
				conn.Close()
			}
		}()
		return server.Addr().String()
	}
	l := newLab(
		t,
		entry(
			"v1",
			"trafficPolicy: {proxyProtocol: {}}",
			listen(),
		)+entry("v2", "trafficPolicy: {proxyProtocol: {version: V2}}", listen()),
		[3]string{},
	)
	l.reaches(cluster80("v1"), "", `"PROXY"`)
	l.reaches(cluster80("v2"), "", `"\r\n\r\n\x00"`)
}

// TestEnvoyOriginatesTLS checks TLS connections of a real Envoy to servers, with certificates of
// files and of Secrets.
func TestEnvoyOriginatesTLS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	roots := pki.Authority("roots")
	identity := func(account string) []*url.URL {
		return []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/" + account}}
	}
	served := roots.Issue(&x509.Certificate{DNSNames: []string{"server.example.com"}, URIs: identity("server")})
	shown := roots.Issue(&x509.Certificate{URIs: identity("client")})
	for name, text := range map[string][]byte{
		"roots.pem":   roots.CertificatePEM(),
		"roots.crl":   roots.Revoke(served.Certificate.SerialNumber),
		"strange.pem": pki.Authority("strange").CertificatePEM(),
		"client.pem":  shown.CertificatePEM(),
		"client.key":  shown.KeyPEM(),
	} {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := tlsServer(t, served, roots)
	spiffe := "subjectAltNames: ['spiffe://cluster.local/ns/default/sa/server']"
	policy := func(tls string) string { return "trafficPolicy: {tls: {" + tls + "}}" }
	l := newLab(t, entry("plain", policy("mode: DISABLE"), says(t, 200, "plain"))+
		entry("simple", policy("mode: SIMPLE, caCertificates: "+in("roots.pem")), server)+
		entry("strange", policy("mode: SIMPLE, caCertificates: "+in("strange.pem")), server)+
		entry("public", policy("mode: SIMPLE"), server)+
		entry("unchecked", policy("mode: SIMPLE, insecureSkipVerify: true, sni: x"), server)+
		entry("absent", policy("mode: SIMPLE, caCertificates: /nowhere/roots.pem"), server)+
		entry(
			"names",
			policy(
				"mode: SIMPLE, sni: named, subjectAltNames: [other, server.example.com], caCertificates: "+in("roots.pem"),
			),
			server,
		)+
		entry(
			"other-names",
			policy("mode: SIMPLE, subjectAltNames: [other], caCertificates: "+in("roots.pem")),
			server,
		)+
		entry(
			"revoked",
			policy(
				"mode: SIMPLE, sni: x, subjectAltNames: [server.example.com], caCrl: "+in("roots.crl")+", caCertificates: "+in("roots.pem"),
			),
			server,
		)+
		entry(
			"mutual",
			policy(fmt.Sprintf(
				"mode: MUTUAL, sni: x, clientCertificate: %s, privateKey: %s, caCertificates: %s, %s",
				in("client.pem"), in("client.key"), in("roots.pem"), spiffe)),
			server,
		)+
		entry("istio", policy("mode: ISTIO_MUTUAL"), server)+
		entry(
			"istio-others",
			policy("mode: ISTIO_MUTUAL, subjectAltNames: ['spiffe://cluster.local/ns/default/sa/other']"),
			server,
		)+
		entry(
			"credential",
			"workloadSelector: {matchLabels: {app: lab}}\n  "+policy(
				"mode: SIMPLE, sni: x, credentialName: trust, "+spiffe,
			),
			server,
		)+
		entry(
			"key",
			"workloadSelector: {matchLabels: {app: lab}}\n  "+policy(
				"mode: MUTUAL, sni: x, credentialName: trust, "+spiffe,
			),
			server,
		)+
		"kind: Secret\nmetadata: {name: trust-cacert}\ndata: {cacert: "+base64.StdEncoding.EncodeToString(roots.CertificatePEM())+"}\n",
		[3]string{in("client.pem"), in("client.key"), in("roots.pem")})

	l.reaches(cluster80("plain"), "", "plain")
	l.reaches(cluster80("simple"), "server.example.com", "server.example.com||[http/1.1]")
	l.fails(cluster80("simple"), "other.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.fails(cluster80("strange"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.fails(cluster80("public"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.reaches(cluster80("unchecked"), "other.example.com", "x||[http/1.1]")
	l.reaches(cluster80("names"), "any", "named||[http/1.1]")
	l.fails(cluster80("other-names"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.reaches(cluster80("mutual"), "any", "x|client|[http/1.1]")
	l.reaches(cluster80("istio"), "any", "outbound_.80_._.istio.lab|client|[istio-http/1.1 istio http/1.1]")
	l.fails(cluster80("istio-others"), "any", "CERTIFICATE_VERIFY_FAILED")
	l.reaches(cluster80("credential"), "any", "x||[http/1.1]")
	// A Secret that does not exist, or that the proxy may not read, fails only the calls that need
	// it.
	l.fails(cluster80("absent"), "server.example.com", "TLS_error")
	l.fails(cluster80("key"), "any", "TLS_error")
	l.fails(cluster80("revoked"), "any", "revoked")
}

// TestEnvoyAcceptsUnverifiedServers: if the mesh disables the verification of servers by
// default, Envoy accepts any certificate, except where a rule requests verification.
func TestEnvoyAcceptsUnverifiedServers(t *testing.T) {
	dir := t.TempDir()
	roots := pki.Authority("roots")
	file := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(file, roots.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	server := tlsServer(t, roots.Issue(&x509.Certificate{DNSNames: []string{"server.example.com"}}), roots)
	strange := tlsServer(
		t,
		pki.Authority("strange").Issue(&x509.Certificate{DNSNames: []string{"server.example.com"}}),
		roots,
	)
	policy := func(tls string) string { return "trafficPolicy: {tls: {" + tls + "}}" }
	l := newLab(t, entry("unasked", policy("mode: SIMPLE"), strange)+
		entry("asked", policy("mode: SIMPLE, insecureSkipVerify: false"), strange)+
		entry("names", policy("mode: SIMPLE, subjectAltNames: [server.example.com]"), strange)+
		entry("authority", policy("mode: SIMPLE, caCertificates: "+file), server)+
		entry("another", policy("mode: SIMPLE, caCertificates: "+file), strange),
		[3]string{}, "verifyCertificateAtClient: false")
	l.reaches(cluster80("unasked"), "other.example.com", "other.example.com||[http/1.1]")
	l.fails(cluster80("asked"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.fails(cluster80("names"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
	l.reaches(cluster80("authority"), "other.example.com", "other.example.com||[http/1.1]")
	l.fails(cluster80("another"), "server.example.com", "CERTIFICATE_VERIFY_FAILED")
}

// TestEnvoyCallsEachEndpointAsItAccepts: in one cluster of a service without TLS settings, a real Envoy
// uses mutual TLS for the endpoint that declares it, and plain text for the other one, also where the
// protocol of the port is undeclared.
func TestEnvoyCallsEachEndpointAsItAccepts(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	roots := pki.Authority("roots")
	identity := func(account string) []*url.URL {
		return []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/" + account}}
	}
	shown := roots.Issue(&x509.Certificate{URIs: identity("client")})
	for name, text := range map[string][]byte{
		"roots.pem": roots.CertificatePEM(), "client.pem": shown.CertificatePEM(), "client.key": shown.KeyPEM(),
	} {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, secured, _ := net.SplitHostPort(tlsServer(t, roots.Issue(&x509.Certificate{URIs: identity("server")}), roots))
	_, plain, _ := net.SplitHostPort(says(t, http.StatusOK, "plain"))
	var config strings.Builder
	for host, port := range map[string][2]string{"declared.lab": {"http", "HTTP"}, "undeclared.lab": {"any", ""}} {
		fmt.Fprintf(&config, `kind: ServiceEntry
metadata: {name: %[1]s}
spec:
  hosts: [%[1]s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: %[2]s, number: 80, protocol: %[3]q}]
  endpoints:
  - {address: 127.0.0.1, ports: {%[2]s: %[4]s}, serviceAccount: server, labels: {security.istio.io/tlsMode: istio}}
  - {address: 127.0.0.1, ports: {%[2]s: %[5]s}}
---
`, host, port[0], port[1], secured, plain)
	}
	l := newLab(t, config.String(), [3]string{in("client.pem"), in("client.key"), in("roots.pem")})
	l.reaches(cluster80("declared"), "", "plain")
	l.reaches(cluster80("declared"), "", "outbound_.80_._.declared.lab|client|[istio-http/1.1 istio http/1.1]")
	l.reaches(cluster80("undeclared"), "", "plain")
	l.fails(cluster80("undeclared"), "", "NO_APPLICATION_PROTOCOL") // the server knows only real names
}

// tlsServer answers with the server name, the last part of the client's name and the protocols that
// it was offered.
func tlsServer(t *testing.T, own, roots *pki.Pair) string {
	t.Helper()
	var offered sync.Map // by the client's address
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := ""
		if len(r.TLS.PeerCertificates) > 0 {
			client = path.Base(r.TLS.PeerCertificates[0].URIs[0].Path)
		}
		protocols, _ := offered.Load(r.RemoteAddr)
		fmt.Fprintf(w, "%s|%s|%v", r.TLS.ServerName, client, protocols)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.TLS()}, ClientCAs: roots.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			offered.Store(h.Conn.RemoteAddr().String(), h.SupportedProtos)
			return nil, nil //nolint:nilnil // the one that there is
		},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
