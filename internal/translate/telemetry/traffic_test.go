package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// objects is a mesh in which "shop" calls "web", by HTTP and TCP. The ports of web's proxy, and of
// the sinks, are inserted.
const objects = `
kind: Pod
metadata:
  name: web-v1-abc-1
  namespace: shop
  labels: {app: web, version: v1, pod-template-hash: abc}
  ownerReferences: [{kind: ReplicaSet, name: web-v1-abc, controller: true, apiVersion: apps/v1, uid: u}]
spec: {containers: [{name: web}]}
status: {podIP: 127.0.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: HTTP}, {name: tcp, port: 90, targetPort: TCP}]}
---
kind: ServiceEntry
metadata: {name: sink, namespace: telemetry}
spec:
  hosts: [sink.example.com]
  addresses: [10.96.0.2]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {grpc: GRPC, http: ZIPKIN}}]
  ports: [{number: 4317, name: grpc, protocol: GRPC}, {number: 9411, name: http, protocol: HTTP}]
---
`

const meshConfig = `
defaultProviders: {metrics: [prometheus]}
extensionProviders:
- {name: text, envoyFileAccessLog: {path: /LOGS/text.log}}
- {name: json, envoyFileAccessLog: {path: /LOGS/json.log, logFormat: {labels: {code: "%RESPONSE_CODE%", peer: "%DOWNSTREAM_PEER_URI_SAN%"}}, omitEmptyValues: true}}
- {name: errors, envoyFileAccessLog: {path: /LOGS/errors.log, logFormat: {text: "ERROR %RESPONSE_CODE%"}}}
- {name: als, envoyHttpAls: {service: sink.example.com, port: 4317, logName: mine, additionalRequestHeadersToLog: [x-user]}}
- {name: tcpals, envoyTcpAls: {service: telemetry/sink.example.com, port: 4317, logName: mine-tcp}}
- {name: otelals, envoyOtelAls: {service: sink.example.com, port: 4317, logFormat: {text: "%REQ(:PATH)%", labels: {code: "%RESPONSE_CODE%"}}}}
- {name: otel, opentelemetry: {service: sink.example.com, port: 4317}}
- {name: zipkin, zipkin: {service: sink.example.com, port: 9411, timeout: 5s, headers: [{name: x-tenant, value: 50%}]}}
`

const telemetries = `
kind: Telemetry
metadata: {name: default, namespace: istio-system}
spec:
  accessLogging:
  - providers: [{name: text}, {name: json}, {name: als}, {name: tcpals}, {name: otelals}]
  - providers: [{name: errors}]
    filter: {expression: response.code >= 400}
  tracing:
  - match: {mode: CLIENT}
    providers: [{name: otel}]
    randomSamplingPercentage: 100
    customTags: {mine: {literal: {value: x}}, user: {header: {name: x-user}}, host: {formatter: {value: "%REQ(:AUTHORITY)%"}}}
  - match: {mode: SERVER}
    providers: [{name: zipkin}]
    randomSamplingPercentage: 100
  metrics:
  - overrides:
    - match: {metric: REQUEST_COUNT}
      tagOverrides:
        request_host: {value: request.host}
        path: {value: "request.url_path.startsWith('/api') ? 'api' : 'other'"}
        response_flags: {operation: REMOVE}
    - match: {metric: RESPONSE_SIZE, mode: CLIENT}
      tagOverrides: {destination_workload: {operation: REMOVE}}
    - match: {metric: REQUEST_SIZE, mode: SERVER}
      disabled: true
`

// pair is a client's and a server's proxy, with the telemetry that they send.
type pair struct {
	sink           *sink
	client, server *proxy
	http, tcp      string // where the client's proxy takes calls
	received       int    // bytes, by the connection
}

func nodeOf(name, app string) node.Node {
	return node.Node{Cluster: app + ".shop", Metadata: mesh.NodeMetadata{
		Name: name + "-1", WorkloadName: name, Namespace: "shop", ClusterID: "Kubernetes", MeshID: "mesh1", Labels: map[string]string{
			"app":     app,
			"version": "v1",
		},
	}}
}

func newPair(t *testing.T, telemetries string) *pair {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(app.Close)
	p := &pair{sink: newSink(t), http: serving.FreeAddress(t), tcp: serving.FreeAddress(t)}
	serverHTTP, serverTCP := serving.FreeAddress(t), serving.FreeAddress(t)
	text := strings.NewReplacer("targetPort: HTTP", "targetPort: "+portOf(serverHTTP), "targetPort: TCP", "targetPort: "+portOf(serverTCP),
		"grpc: GRPC", "grpc: "+p.sink.grpcPort, "http: ZIPKIN", "http: "+p.sink.httpPort).Replace(objects) + telemetries
	m := fixture.New(t, []byte(text), []byte(meshConfig))

	server := generate(
		t,
		m.View(fixture.Proxy(
			t,
			[]byte("{name: web-v1-abc-1, namespace: shop, addresses: [127.0.0.1], labels: {app: web}}"),
		)),
	)
	for _, at := range []string{serverHTTP, serverTCP} { // to the application, without capture
		server.clusters["inbound|"+portOf(at)+"||"] = toApplication(
			server.clusters["inbound|"+portOf(at)+"||"],
			app.Listener.Addr().String(),
		)
	}
	p.server = server.start(t, environ(nodeOf("web-v1", "web")), server.chain(
		t,
		"virtualInbound",
		serverHTTP,
		chainFor(serverHTTP, "http_connection_manager"),
	),
		server.chain(t, "virtualInbound", serverTCP, chainFor(serverTCP, "tcp_proxy")))

	client := generate(
		t,
		m.View(fixture.Proxy(t, []byte("{name: shop, namespace: shop, addresses: [10.9.0.1], labels: {app: shop}}"))),
	)
	p.client = client.start(t, environ(nodeOf("shop-v1", "shop")), client.chain(
		t,
		"0.0.0.0_80",
		p.http,
		chainFor("", "http_connection_manager"),
	),
		client.chain(t, "10.96.0.1_90", p.tcp, chainFor("", "tcp_proxy")))
	return p
}

// environ is what pilot-agent adds to Envoy's environment (agent.withIdentity, which has a test of
// its own).
func environ(n node.Node) []string {
	w := n.Workload()
	return []string{
		"ISTIO_CANONICAL_SERVICE=" + w.CanonicalService, "ISTIO_CANONICAL_REVISION=" + w.CanonicalRevision, "ISTIO_NAMESPACE=" + w.Namespace,
		"ISTIO_CLUSTER_ID=" + w.Cluster, "ISTIO_MESH_ID=" + w.MeshID, "OTEL_RESOURCE_ATTRIBUTES=service.name=" + n.Cluster,
	}
}

// chainFor chooses a chain for a port that ends in a filter.
func chainFor(at, filter string) func(*listenerv3.FilterChain) bool {
	return func(c *listenerv3.FilterChain) bool {
		port := fmt.Sprint(c.GetFilterChainMatch().GetDestinationPort().GetValue())
		if at != "" && port != portOf(at) {
			return false
		}
		last := c.GetFilters()[len(c.GetFilters())-1]
		return strings.Contains(last.GetName(), filter) || strings.Contains(last.GetConfigDiscovery().String(), filter)
	}
}

func toApplication(c *clusterv3.Cluster, at string) *clusterv3.Cluster {
	c.ClusterDiscoveryType, c.LbPolicy, c.UpstreamBindConfig = &clusterv3.Cluster_Type{
		Type: clusterv3.Cluster_STATIC,
	}, clusterv3.Cluster_ROUND_ROBIN, nil
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.GetName(), Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{
			{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: addressOf(at)}}},
		},
	}}}
	return c
}

func (p *pair) get(t testing.TB, path string, headers ...string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "web"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); string(body) != "hello" {
		t.Fatalf("%s: %s", answer.Status, body)
	}
}

const rawRequest = "GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"

// connect speaks HTTP over a connection that proxies take for bytes.
func (p *pair) connect(t *testing.T) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, rawRequest); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(body), "hello") {
		t.Fatalf("%q, %v", body, err)
	}
	p.received = len(body)
}

// TestTwoSidecarsReportTraffic sends requests and a connection through two real sidecars, and
// checks the telemetry of both.
func TestTwoSidecarsReportTraffic(t *testing.T) {
	p := newPair(t, telemetries)
	p.get(t, "/api/1", "x-user", "jane")
	p.get(t, "/broken", "x-user", "jane")
	p.connect(t)
	t.Run("metrics", p.metrics)
	t.Run("logs", p.logs)
	t.Run("spans", p.spans)
}

// TestNothingIsMissed checks metrics that the agent derives from others: requests, from durations
// that Envoy's threads merge, and connections without a cluster.
func TestNothingIsMissed(t *testing.T) {
	p := newPair(t, "")
	const callers, each = 4, 50
	all := serving.NewGroup(t)
	for range callers {
		all.Go(func(t testing.TB) {
			for range each {
				p.get(t, "/api/1")
			}
		})
	}
	all.Wait()
	shop, web := nodeOf("shop-v1", "shop"), nodeOf("web-v1", "web")
	p.client.series(
		t,
		shop,
		"istio_requests_total",
		`reporter="source"`,
		`response_code="200"`,
		fmt.Sprintf("} %d", callers*each),
	)
	p.server.series(
		t,
		web,
		"istio_requests_total",
		`reporter="destination"`,
		`response_code="200"`,
		fmt.Sprintf("} %d", callers*each),
	)
	p.server.kill()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if body, err := io.ReadAll(c); len(body) > 0 {
		t.Fatalf("%q, %v", body, err)
	}
	for _, metric := range []string{"istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total"} {
		p.client.series(t, shop, metric, `response_flags="UF`, "} 1")
	}
}

func expect(t *testing.T, line string, labels ...string) {
	t.Helper()
	for _, l := range labels {
		if !strings.Contains(","+line, ","+l) {
			t.Errorf("no %s in %s", l, line)
		}
	}
}

func (p *pair) metrics(t *testing.T) {
	shop, web := nodeOf("shop-v1", "shop"), nodeOf("web-v1", "web")
	service := []string{
		`destination_service="web.shop.svc.cluster.local"`, `destination_service_name="web"`,
		`destination_service_namespace="shop"`,
	}
	destination := append([]string{
		`destination_workload="web-v1"`, `destination_workload_namespace="shop"`, `destination_canonical_service="web"`, `destination_canonical_revision="v1"`,
		`destination_app="web"`, `destination_version="v1"`, `destination_cluster="Kubernetes"`, `destination_principal="unknown"`,
	}, service...)
	source := []string{
		`source_workload="shop-v1"`, `source_workload_namespace="shop"`,
		`source_canonical_service="shop"`, `source_app="shop"`, `source_cluster="Kubernetes"`,
	}

	line := p.client.series(t, shop, "istio_requests_total", `reporter="source"`, `response_code="200"`)
	expect(t, line, append(append(source, destination...), `request_protocol="http"`, `connection_security_policy="unknown"`, `grpc_response_status=""`,
		`request_host="web"`, `path="api"`)...)
	if !strings.HasSuffix(line, "} 1") || strings.Contains(line, "response_flags") {
		t.Errorf("got %s", line)
	}
	expect(t, p.client.series(t, shop, "istio_requests_total", `response_code="500"`), `path="other"`)
	line = p.server.series(t, web, "istio_requests_total", `reporter="destination"`, `response_code="200"`)
	expect(
		t,
		line,
		append(
			destination,
			`source_workload="unknown"`,
			`source_principal="unknown"`,
			`connection_security_policy="none"`,
			`path="api"`,
		)...,
	)

	expect(
		t,
		p.client.series(t, shop, "istio_request_duration_milliseconds_bucket", `le="+Inf"`, `response_code="200"`),
		append(destination, `response_flags="-"`)...,
	)
	p.client.series(t, shop, "istio_request_bytes_sum", `response_code="200"`)
	line = p.client.series(t, shop, "istio_response_bytes_count", `response_code="200"`, "} 1")
	expect(t, line, `destination_canonical_service="web"`)
	if strings.Contains(line, "destination_workload=") {
		t.Errorf("got %s", line)
	}
	if text := p.server.metrics(t, web); strings.Contains(text, "istio_request_bytes") {
		t.Error("a metric that was turned off is there")
	}
	for _, metric := range []string{
		"istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total",
		"istio_tcp_sent_bytes_total", "istio_tcp_received_bytes_total",
	} {
		line = p.client.series(t, shop, metric, `reporter="source"`)
		expect(t, line, append(append(destination, source...), `request_protocol="tcp"`)...)
		p.server.series(t, web, metric, append(service, `reporter="destination"`)...)
		want := map[string]int{
			"istio_tcp_received_bytes_total": len(rawRequest),
			"istio_tcp_sent_bytes_total":     p.received,
		}[metric]
		p.client.series(t, shop, metric, fmt.Sprintf("} %d", max(want, 1)))
	}
}

func (p *pair) logs(t *testing.T) {
	text := p.client.log(t, "text.log", "/broken")
	if !strings.Contains(text, `"GET /api/1 HTTP/1.1" 200`) ||
		!strings.Contains(text, "outbound|80||web.shop.svc.cluster.local") {
		t.Errorf("got %s", text)
	}
	if json := p.client.log(t, "json.log", "500"); !strings.Contains(json, `{"code":200}`) {
		t.Errorf("got %s", json)
	}
	if errors := p.client.log(t, "errors.log", "500"); errors != "ERROR 500\n" {
		t.Errorf("got %s", errors)
	}
	if tcp := p.client.log(t, "text.log", "outbound|90||"); strings.Count(tcp, "outbound|90||web") != 1 {
		t.Errorf("a connection is not logged once: %s", tcp)
	}
	p.sink.eventually(t, "an entry of the access log service", func() bool {
		var http, tcp bool
		name := map[string]string{}
		for _, m := range p.sink.entries {
			for _, e := range m.GetHttpLogs().GetLogEntry() {
				http = http ||
					e.GetRequest().GetPath() == "/api/1" && e.GetRequest().GetRequestHeaders()["x-user"] == "jane"
			}
			for _, e := range m.GetTcpLogs().GetLogEntry() {
				tcp = tcp || strings.HasPrefix(e.GetCommonProperties().GetUpstreamCluster(), "outbound|90||")
			}
			name[m.GetIdentifier().GetLogName()] = "seen"
		}
		return http && tcp && name["mine"] != "" && name["mine-tcp"] != ""
	})
	p.sink.eventually(t, "a record of OpenTelemetry", func() bool {
		for _, r := range p.sink.records {
			if r.GetBody().GetStringValue() == "/broken" && attributeOf(r.GetAttributes(), "code") == "500" {
				return true
			}
		}
		return false
	})
}

func (p *pair) spans(t *testing.T) {
	p.sink.eventually(t, "a span of the client's proxy", func() bool {
		for _, r := range p.sink.spans {
			if attributeOf(r.GetResource().GetAttributes(), "service.name") != "shop.shop" {
				continue
			}
			for _, scope := range r.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					tags := s.GetAttributes()
					if attributeOf(tags, "istio.canonical_service") == "shop" &&
						attributeOf(tags, "istio.namespace") == "shop" &&
						attributeOf(tags, "istio.mesh_id") == "mesh1" && attributeOf(tags, "mine") == "x" && attributeOf(tags, "user") == "jane" &&
						attributeOf(tags, "host") == "web" && attributeOf(tags, "upstream_cluster") != "" {
						return true
					}
				}
			}
		}
		return false
	})
	p.sink.eventually(t, "a span of the server's proxy", func() bool {
		all := strings.Join(p.sink.zipkin, "")
		return strings.Contains(all, `"istio.canonical_service":"web"`) && strings.Contains(all, `"kind":"SERVER"`) &&
			strings.Contains(strings.Join(p.sink.metadata, "\n"), "/api/v2/spans 50%")
	})
}
