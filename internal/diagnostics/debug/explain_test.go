package debug

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const explainedMesh = `
kind: Service
metadata: {name: reviews, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: reviews}, ports: [{name: http, port: 9080}, {name: tcp, port: 5432}]}
---
kind: Pod
metadata: {name: reviews-v1, namespace: shop, labels: {app: reviews}}
status: {phase: Running, podIP: 10.1.0.1}
---
kind: ServiceEntry
metadata: {name: outside, namespace: shop}
spec: {hosts: [out.example.com], resolution: DNS, ports: [{name: http, number: 80, protocol: HTTP}, {name: tls, number: 443, protocol: TLS}]}
---
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  http:
  - match: [{headers: {end-user: {exact: jason}}}]
    directResponse: {status: 418}
  - match: [{headers: {end-user: {exact: ann}}}]
    route: [{destination: {host: reviews, subset: v2}}]
  - route: [{destination: {host: reviews}}]
---
kind: VirtualService
metadata: {name: second, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {hosts: [reviews.shop.svc.cluster.local], http: [{directResponse: {status: 500}}]}
---
kind: VirtualService
metadata: {name: all, namespace: shop}
spec: {hosts: ["*.shop.svc.cluster.local"], http: [{directResponse: {status: 500}}]}
---
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec: {host: reviews, trafficPolicy: {connectionPool: {tcp: {maxConnections: 10}}}}
---
kind: DestinationRule
metadata: {name: subsets, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
kind: DestinationRule
metadata: {name: reviews, namespace: bank}
spec: {host: "*.shop.svc.cluster.local", subsets: [{name: v2, labels: {version: v2}}]}
---
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["*/*"]}]}
---
kind: Sidecar
metadata: {name: later, namespace: shop}
spec: {egress: [{hosts: ["./*"]}]}
---
kind: Service
metadata: {name: orders, namespace: shop}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 9080}]}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: orders, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: orders}]
  rules:
  - {name: create, matches: [{path: {value: /orders}, method: POST}], backendRefs: [{name: orders, port: 9080}]}
  - {name: gone, matches: [{path: {value: /gone}}], backendRefs: [{name: missing, port: 9080}]}
  - {name: port, matches: [{path: {value: /port}}], backendRefs: [{name: orders, port: 9081}]}
  - {name: rest, backendRefs: [{name: orders, port: 9080}]}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: stray, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: ordres}]
  rules: [{matches: [{path: {value: /stray}}], backendRefs: [{name: orders, port: 9080}]}]
---
kind: TLSRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: secure, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: ordres}], hostnames: ["*.secure.example.com"], rules: [{backendRefs: [{name: orders, port: 9080}]}]}
---
kind: TCPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: raw, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: reviws, port: 5432}], rules: [{backendRefs: [{name: orders, port: 9080}]}]}
---
kind: TCPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge, namespace: shop}
spec: {parentRefs: [{name: edge, sectionName: none}], rules: [{backendRefs: [{name: orders, port: 9080}]}]}
---
kind: AuthorizationPolicy
metadata: {name: readers, namespace: shop}
spec:
  rules:
  - from: [{source: {namespaces: [shop]}}]
    to: [{operation: {paths: [/reviews]}}]
  - from: [{source: {ipBlocks: [10.7.0.0/16]}}]
    to: [{operation: {notPaths: [/admin]}}]
---
kind: AuthorizationPolicy
metadata: {name: nobody, namespace: shop}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]}
`

// explainedPages returns the pages of a control plane with one proxy, which was sent all its
// generated resources.
func explainedPages(t *testing.T) *Pages {
	t.Helper()
	m := fixture.New(t, []byte(explainedMesh), nil)
	p := proxy("web-1", "shop", "10.1.0.9")
	v := m.View(p)
	made := map[string][]*resource.Resource{}
	for _, g := range translate.NewTable(translate.Options{}).Generators {
		if g.All != nil {
			made[g.TypeURL] = append(made[g.TypeURL], g.All(v)...)
			continue
		}
		for _, name := range map[string][]string{
			api.RouteType:     {"80", "9080", "orders.shop.svc.cluster.local:9080"},
			api.EndpointType:  {"outbound|9080||reviews.shop.svc.cluster.local", "outbound|5432||reviews.shop.svc.cluster.local"},
			api.ExtensionType: {listener.PoliciesExtension},
		}[g.TypeURL] {
			if r := g.Named(v, name); r != nil {
				made[g.TypeURL] = append(made[g.TypeURL], r)
			}
		}
	}
	c := push.Connection{ID: p.ID + "-1", Proxy: p, ConnectedAt: at(1)}
	for _, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType, api.ExtensionType} {
		c.Types = append(c.Types, watchOf(typeURL, "1", "1", made[typeURL]...))
	}
	callee := c
	callee.Proxy = proxy("reviews-v1", "shop", "10.1.0.1")
	callee.ID = callee.Proxy.ID + "-1"
	return New(
		Options{
			Snapshot: m.Snapshot,
			Proxies:  fleet{list: []push.Connection{c, callee}},
			Cluster:  mesh.ClusterID("Kubernetes"),
		},
	)
}

func TestExplain(t *testing.T) {
	p := explainedPages(t)
	for _, c := range []struct{ query, want string }{
		{"url=http://reviews:9080/", "outbound|9080||reviews.shop.svc.cluster.local at 10.1.0.1:9080"},
		{"url=http://reviews:9080/", "outbound to 10.96.0.1:9080"},
		{"url=http://reviews.shop:9080/", "[VirtualService/shop/reviews spec.http[2]]"},
		{"url=http://reviews:9080/&header=end-user:%20jason", "VirtualService/shop/reviews spec.http[0].match[0]"},
		{"url=http://reviews:9080/&header=end-user:%20jason", "=> 418"},
		{
			"url=http://reviews:9080/&header=end-user:%20ann",
			`note: DestinationRule/shop/reviews applies to calls to reviews.shop.svc.cluster.local, and defines no subset "v2"`,
		},
		{
			"url=http://reviews:9080/&header=end-user:%20ann",
			`note: DestinationRule/bank/reviews defines subset "v2", but is overridden by DestinationRule/shop/reviews for host ` +
				"reviews.shop.svc.cluster.local: it is in the namespace of the client",
		},
		{"url=http://reviews:9080/&method=POST&protocol=h2c", "POST http://reviews:9080/"},
		{
			"url=http://reviews:9080/",
			"note: VirtualService/shop/reviews takes precedence over VirtualService/shop/second for host reviews.shop.svc.cluster.local: it is older",
		},
		{
			"url=http://reviews:9080/",
			"note: VirtualService/shop/reviews takes precedence over VirtualService/shop/all for host reviews.shop.svc.cluster.local: its host ",
		},
		{"url=http://reviews:9080/", "note: DestinationRule/shop/reviews is merged before DestinationRule/shop/subsets for host reviews.shop.svc.cluster.local: "},
		{
			"url=http://reviews:9080/",
			"note: Sidecar/shop/default takes precedence over Sidecar/shop/later for proxies of namespace shop: it is older",
		},
		{"url=tcp://reviews:5432", "forwards bytes to outbound|5432||reviews.shop.svc.cluster.local"},
		{"url=http://out.example.com/", "outbound|80||out.example.com"},
		{"url=tls://out.example.com", "forwards bytes to outbound|443||out.example.com"},
		{"url=http://orders:9080/orders", "not HTTPRoute/shop/orders spec.rules[0]: :method is POST"},
		{"url=http://orders:9080/gone", "[HTTPRoute/shop/orders spec.rules[1]]"},
		{"url=http://orders:9080/gone", "spec.rules[1].backendRefs[0]: BackendNotFound: Service shop/missing does not exist"},
		{"url=http://orders:9080/port", "spec.rules[2].backendRefs[0].port: BackendNotFound: Service shop/orders has no port 9081"},
		{"url=http://orders:9080/stray/1", "note: not attached: HTTPRoute/shop/stray"},
		{"url=tls://a.secure.example.com&to=10.2.0.1:443", "note: not attached: TLSRoute/shop/secure"},
		{"url=tcp://reviews:5432", "note: not attached: TCPRoute/shop/raw"},
		{"url=http://reviews:9081/", "note: service reviews.shop.svc.cluster.local has no port 9081, so none of its configuration applies; its ports are "},
		{"url=http://reviws:9080/", "note: the proxy has no service \"reviws\""},
		{"url=http://nobody.example.com/&to=10.2.0.1:80", "PassthroughCluster at 10.2.0.1:80"},
		{"url=http://me:8080/&inbound&from=10.7.1.1", "InboundPassthroughCluster at 10.1.0.9:8080"},
		{"url=http://me:8080/reviews&principal=shop/web", "a rule of ALLOW matches: continues [AuthorizationPolicy/shop/readers spec.rules[0]]"},
		{"url=http://me:8080/reviews&principal=spiffe://cluster.local/ns/other/sa/web", "not AuthorizationPolicy/shop/readers spec.rules[0]: the caller is spiffe://cluster.local/ns/other/sa/web (wanted: "},
		{"url=http://me:8080/reviews&inbound", "the caller has no identity, for the call is not by mutual TLS"},
		{"url=http://me:8080/admin&inbound&from=10.7.1.1", "rbac_access_denied_matched_policy[none]"},
		{"url=http://me:8080/secret&principal=shop/web", "=> 403 Forbidden, \"RBAC: access denied\" (access denied: rbac_access_denied_matched_policy[ns[shop]-policy[nobody]-rule[0]])"},
		{"url=http://me:8080/reviews&principal=shop/web&header=content-type:application/grpc", "HTTP/2"},
		{"url=tcp://me:8080&principal=shop/web", "closed: access denied"},
		{"url=http://reviews:9080/reviews&both", "and there, inbound to 10.1.0.1:9080: GET http://reviews:9080/reviews"},
	} {
		body, err := p.Page(
			"explain?proxyID=web-1.shop&text&"+strings.ReplaceAll(c.query, "|", "%7C"),
			Caller{Namespace: "shop"},
		)
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: no %q in\n%s%v", c.query, c.want, body, err)
		}
		if strings.Contains(string(body), "TCPRoute/shop/edge") {
			t.Errorf("%s: the proxy is not of the Gateway of TCPRoute/shop/edge:\n%s", c.query, body)
		}
	}
}

// TestNearParent: a parentRef concerns a call by its port, or else if it names the Gateway of the proxy.
func TestNearParent(t *testing.T) {
	p := proxy("edge-1", "shop", "10.1.0.20")
	p.Labels = map[string]string{"gateway.networking.k8s.io/gateway-name": "edge"}
	e := &explanation{proxy: p}
	call := explain.Call{To: netip.MustParseAddrPort("10.1.0.20:5432")}
	other, port, otherPort := gatewayv1.Namespace("other"), gatewayv1.PortNumber(5432), gatewayv1.PortNumber(80)
	for _, c := range []struct {
		parent gatewayv1.ParentReference
		want   bool
	}{
		{gatewayv1.ParentReference{Name: "edge"}, true},
		{gatewayv1.ParentReference{Name: "edge", Port: &otherPort}, false},
		{gatewayv1.ParentReference{Name: "edge", Namespace: &other}, false},
		{gatewayv1.ParentReference{Name: "none"}, false},
		{gatewayv1.ParentReference{Name: "none", Port: &port}, true},
	} {
		if got := e.isNearParent(c.parent, "shop", call); got != c.want {
			t.Errorf("%+v: %t", c.parent, got)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	p := explainedPages(t)
	for _, c := range []struct {
		query, namespace string
		status           int
	}{
		{"url=http://reviews/", "", http.StatusBadRequest},
		{"proxyID=web-1.shop", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=reviews", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=udp://reviews:53", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=tcp://reviews", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=tcp://reviews:99999", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=http://reviews/&to=reviews", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=http://reviews/&header=nothing", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=http://reviews/&inbound&from=here", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=http://reviews/&inbound&claim=groups", "", http.StatusBadRequest},
		{"proxyID=web-1.shop&url=http://reviews/&inbound&authorizer=perhaps", "", http.StatusBadRequest},
		{"proxyID=nobody&url=http://reviews/", "", http.StatusNotFound},
		{"proxyID=web-1.shop&url=" + url.QueryEscape("http://reviews/"), "bank", http.StatusNotFound},
	} {
		body, err := p.Page("explain?"+c.query, Caller{Namespace: c.namespace})
		var refusal Refusal
		if !errors.As(err, &refusal) || refusal.Status != c.status {
			t.Errorf("%s as %q: got %s, %v; want status %d", c.query, c.namespace, body, err, c.status)
		}
	}
}

// TestExplainReadsOneSnapshot explains a call at both proxies, during which the mesh could change.
func TestExplainReadsOneSnapshot(t *testing.T) {
	p := explainedPages(t)
	current, reads := p.Snapshot, 0
	p.Snapshot = func() *snapshot.Snapshot {
		reads++
		return current()
	}
	for _, query := range []string{"url=http://reviews:9080/reviews&both", "url=http://me:8080/reviews&principal=shop/web"} {
		reads = 0
		if _, err := p.Page("explain?proxyID=web-1.shop&text&"+query, Caller{}); err != nil || reads != 1 {
			t.Errorf("%s: the snapshot was read %d times, %v", query, reads, err)
		}
	}
}

// TestExplainNamesUndelivered explains a call whose resources the proxy has not acknowledged.
func TestExplainNamesUndelivered(t *testing.T) {
	p := explainedPages(t)
	f, _ := p.Proxies.(fleet)
	f.states = map[string]stream.Delivery{
		"9080": stream.Unsent, "outbound|9080||reviews.shop.svc.cluster.local": stream.Rejected, "0.0.0.0_9080": stream.Unanswered,
		"80": stream.Rejected, // of another port
	}
	f.kept = []push.Quarantined{{
		TypeURL: api.RouteType, Name: "9080", Message: "no such regular expression", Affected: []string{f.list[0].ID},
	}}
	p.Proxies = f
	body, err := p.Page("explain?proxyID=web-1.shop&text&url=http://reviews:9080/", Caller{Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"note: RDS 9080: this version has not been sent to the proxy yet",
		"note: RDS 9080: the newest version is in quarantine because proxies rejected it: no such regular expression",
		"note: CDS outbound|9080||reviews.shop.svc.cluster.local: the proxy rejected this version",
		"note: LDS 0.0.0.0_9080: this version was sent to the proxy, which has not acknowledged it yet",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(string(body), "RDS 80:") {
		t.Errorf("a resource that is not on the path is named:\n%s", body)
	}
}

// TestExplainCapture explains calls of pods whose annotations exclude traffic from capture.
func TestExplainCapture(t *testing.T) {
	p := explainedPages(t)
	f, _ := p.Proxies.(fleet)
	for _, c := range []struct{ annotations, query, want string }{
		{"", "url=http://reviews:9080/", ""},
		{"excludeOutboundPorts=9080, 5432", "url=tcp://reviews:5432", "excludeOutboundPorts lists port 5432"},
		{"excludeOutboundPorts=5432", "url=http://reviews:9080/", ""},
		{"includeOutboundIPRanges=10.97.0.0/16", "url=http://reviews:9080/", "includeOutboundIPRanges does not contain 10.96.0.1"},
		{"includeOutboundIPRanges=10.97.0.0/16;includeOutboundPorts=9080", "url=http://reviews:9080/", ""},
		{"includeOutboundIPRanges=;includeOutboundPorts=80,9000:9100", "url=http://reviews:9080/", ""},
		{"includeOutboundIPRanges=", "url=http://reviews:9080/", "includeOutboundIPRanges does not contain 10.96.0.1"},
		{"includeOutboundIPRanges=", "url=http://nowhere.example.com/", ""}, // the address is not known
		{"includeOutboundIPRanges=*;excludeOutboundIPRanges=10.96.0.0/16", "url=http://reviews:9080/", "excludeOutboundIPRanges contains 10.96.0.1"},
		{"includeInboundPorts=", "url=http://me:8080/&inbound", "includeInboundPorts does not list port 8080"},
		{"includeInboundPorts=80,8080", "url=http://me:8080/&inbound", ""},
		{"excludeInboundPorts=8080", "url=http://me:8080/&inbound", "excludeInboundPorts lists port 8080"},
		{"includeInboundPorts=8080;excludeInboundPorts=8080", "url=http://me:8080/&inbound", ""},
	} {
		proxy := *f.list[0].Proxy
		proxy.Metadata.Annotations = map[string]string{}
		for setting := range strings.SplitSeq(c.annotations, ";") {
			if name, value, ok := strings.Cut(setting, "="); ok {
				proxy.Metadata.Annotations["traffic.sidecar.istio.io/"+name] = value
			}
		}
		f.list[0].Proxy = &proxy
		body, err := p.Page("explain?proxyID=web-1.shop&text&"+c.query, Caller{})
		if err != nil {
			t.Fatal(err)
		}
		const note = "note: the connection is not captured, so it bypasses the proxy and the path does not apply: annotation traffic.sidecar.istio.io/"
		if c.want == "" && strings.Contains(string(body), "not captured") || !strings.Contains(string(body), note+c.want) && c.want != "" {
			t.Errorf("%s, %s: want %q in\n%s", c.annotations, c.query, c.want, body)
		}
	}
}

// TestExplainResolution checks which DNS server resolves hosts, with and without the DNS proxy of
// the agent.
func TestExplainResolution(t *testing.T) {
	p := explainedPages(t)
	f, _ := p.Proxies.(fleet)
	for _, c := range []struct {
		captured  bool
		url, want string
	}{
		{false, "http://reviews:9080/", "note: DNS: the cluster's DNS answers reviews.shop.svc.cluster.local with 10.96.0.1"},
		{false, "http://out.example.com/", "note: DNS: the resolver of the pod must know out.example.com"},
		{true, "http://reviews:9080/", "note: DNS: the agent beside the proxy answers reviews.shop.svc.cluster.local with 10.96.0.1"},
		{true, "http://out.example.com/", "note: DNS: the agent beside the proxy answers out.example.com with 240.240."},
	} {
		proxy := *f.list[0].Proxy
		proxy.Metadata.DNSCapture = mesh.StringBool(c.captured)
		f.list[0].Proxy = &proxy
		body, err := p.Page("explain?proxyID=web-1.shop&text&url="+c.url, Caller{})
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s, captured %t: no %q in\n%s%v", c.url, c.captured, c.want, body, err)
		}
	}
}
