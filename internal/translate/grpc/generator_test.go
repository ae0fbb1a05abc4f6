package grpc

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// read reads a message as YAML.
func read[M proto.Message](t *testing.T, m M, text string) M {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = protojson.Unmarshal(js, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAssignment: gRPC rejects assignments with an endpoint without locality, a repeated locality
// or address, or gaps between priorities.
func TestAssignment(t *testing.T) {
	of := encodeResource("c", api.EndpointType, read(t, new(endpointv3.ClusterLoadAssignment), `
clusterName: c
endpoints:
- lbEndpoints:
  - {endpoint: {address: {socketAddress: {address: 10.0.0.1, portValue: 80}}}, metadata: {filterMetadata: {istio: {}}}}
  - {endpoint: {address: {socketAddress: {address: 10.0.0.2, portValue: 80}}}, loadBalancingWeight: 3, healthStatus: DRAINING}
- lbEndpoints:
  - {endpoint: {address: {socketAddress: {address: 10.0.0.1, portValue: 80}}}}
  - {endpoint: {address: {pipe: {path: /a}}}}
  - {endpoint: {address: {socketAddress: {address: 10.0.0.3, portValue: 80}}}}
- {locality: {region: r}, priority: 4, loadBalancingWeight: 7, lbEndpoints: [{endpoint: {address: {socketAddress: {address: 10.0.0.4, portValue: 80}}}}]}
- {locality: {region: s}, priority: 3}
`))
	want := read(t, new(endpointv3.ClusterLoadAssignment), `
clusterName: c
endpoints:
- locality: {}
  loadBalancingWeight: 5
  lbEndpoints:
  - {endpoint: {address: {socketAddress: {address: 10.0.0.1, portValue: 80}}}}
  - {endpoint: {address: {socketAddress: {address: 10.0.0.2, portValue: 80}}}, loadBalancingWeight: 3, healthStatus: DRAINING}
  - {endpoint: {address: {socketAddress: {address: 10.0.0.3, portValue: 80}}}}
- {locality: {region: r}, priority: 1, loadBalancingWeight: 7, lbEndpoints: [{endpoint: {address: {socketAddress: {address: 10.0.0.4, portValue: 80}}}}]}
`)
	got := new(endpointv3.ClusterLoadAssignment)
	decodeResource(reduceAssignment(of).made, got)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPolicyFailsClosed: what gRPC does not know never lets in more. An ALLOW takes it as never
// true, a DENY as always, and both turn around under a negation.
func TestPolicyFailsClosed(t *testing.T) {
	always, never := constantPermission(true), constantPermission(false)
	template := read(t, new(rbacv3.Permission), "uriTemplate: {name: x}")
	others := &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: new(rbacv3.SourcedMetadata)}}
	not := func(p *rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
	}
	port := read(t, new(rbacv3.Permission), "destinationPort: 80")
	scheme := read(t, new(rbacv3.Permission), "header: {name: ':Scheme', presentMatch: true}")
	for name, test := range map[string]struct{ in, allow, deny *rbacv3.Permission }{
		"known":                         {port, port, port},
		"unknown":                       {template, never, always},
		"its negation":                  {not(template), not(always), not(never)},
		"of a filter that is not there": {others, never, always},
		"a header that gRPC refuses": {
			read(
				t,
				new(rbacv3.Permission),
				"andRules: {rules: [{destinationPort: 80}, {header: {name: grpc-timeout, presentMatch: true}}]}",
			),
			&rbacv3.Permission{
				Rule: &rbacv3.Permission_AndRules{
					AndRules: &rbacv3.Permission_Set{Rules: []*rbacv3.Permission{port, never}},
				},
			},
			&rbacv3.Permission{
				Rule: &rbacv3.Permission_AndRules{
					AndRules: &rbacv3.Permission_Set{Rules: []*rbacv3.Permission{port, always}},
				},
			},
		},
		"in any case": {scheme, never, always},
	} {
		for action, want := range map[rbacv3.RBAC_Action]*rbacv3.Permission{
			rbacv3.RBAC_ALLOW: test.allow,
			rbacv3.RBAC_DENY:  test.deny,
		} {
			out := reduceRules(
				&rbacv3.RBAC{
					Action:   action,
					Policies: map[string]*rbacv3.Policy{"p": {Permissions: []*rbacv3.Permission{test.in}}},
				},
				false,
			)
			if diff := cmp.Diff(want, out.GetPolicies()["p"].GetPermissions()[0], protocmp.Transform()); diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", name, action, diff)
			}
		}
	}
}

// TestTokensFailClosed: where a RequestAuthentication applies, conditions on tokens are treated as
// unknown; elsewhere requests have no token.
func TestTokensFailClosed(t *testing.T) {
	always, never := constantPrincipal(true), constantPrincipal(false)
	token := &rbacv3.Principal{
		Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: new(rbacv3.SourcedMetadata)},
	}
	not := func(p *rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
	}
	for name, test := range map[string]struct {
		in          *rbacv3.Principal
		tokens      bool
		allow, deny *rbacv3.Principal
	}{
		"a token":             {token, true, never, always},
		"no token":            {not(token), true, not(always), not(never)},
		"a token, none read":  {token, false, never, never},
		"no token, none read": {not(token), false, not(never), not(never)},
	} {
		for action, want := range map[rbacv3.RBAC_Action]*rbacv3.Principal{
			rbacv3.RBAC_ALLOW: test.allow,
			rbacv3.RBAC_DENY:  test.deny,
		} {
			out := reduceRules(
				&rbacv3.RBAC{
					Action:   action,
					Policies: map[string]*rbacv3.Policy{"p": {Principals: []*rbacv3.Principal{test.in}}},
				},
				test.tokens,
			)
			if diff := cmp.Diff(want, out.GetPolicies()["p"].GetPrincipals()[0], protocmp.Transform()); diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", name, action, diff)
			}
		}
	}
}

// TestMatch: conditions that all gRPC calls share are decided; conditions that only a proxy could
// evaluate are treated as not met.
func TestMatch(t *testing.T) {
	for in, want := range map[string]string{
		"{prefix: /, headers: [{name: a, stringMatch: {exact: b}}]}":                                              "{prefix: /, headers: [{name: a, stringMatch: {exact: b}}]}",
		"{prefix: /, headers: [{name: ':method', stringMatch: {exact: POST}}]}":                                   "{prefix: /}",
		"{prefix: /, headers: [{name: ':Method', stringMatch: {prefix: po, ignoreCase: true}}]}":                  "{prefix: /}",
		"{prefix: /, headers: [{name: ':method', stringMatch: {safeRegex: {regex: 'P.*'}}}]}":                     "{prefix: /}",
		"{prefix: /, headers: [{name: ':method', stringMatch: {safeRegex: {regex: P}}}]}":                         "",
		"{prefix: /, headers: [{name: ':method', stringMatch: {exact: GET}}]}":                                    "",
		"{prefix: /, headers: [{name: ':method', stringMatch: {exact: GET}, invertMatch: true}]}":                 "{prefix: /}",
		"{prefix: /, headers: [{name: ':scheme', presentMatch: true}]}":                                           "{prefix: /}",
		"{prefix: /, headers: [{name: ':scheme', stringMatch: {exact: https}}]}":                                  "",
		"{path: /a, queryParameters: [{name: a, presentMatch: true}]}":                                            "",
		"{path: /a, dynamicMetadata: [{filter: a, path: [{key: b}], value: {presentMatch: true}}]}":               "",
		"{path: /a, dynamicMetadata: [{filter: a, path: [{key: b}], value: {presentMatch: true}, invert: true}]}": "{path: /a}",
	} {
		got := reduceMatch(read(t, new(routev3.RouteMatch), in))
		if want == "" {
			if got != nil {
				t.Errorf("%s became %v", in, got)
			}
			continue
		}
		if diff := cmp.Diff(read(t, new(routev3.RouteMatch), want), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

const world = `
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {clusterIP: 10.96.0.1, selector: {app: echo}, ports: [{name: grpc, port: 80, targetPort: 8080}, {name: tcp, port: 90, targetPort: 9090}]}
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: elsewhere}
spec: {clusterIP: 10.96.0.2, ports: [{name: grpc, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: inside, namespace: elsewhere}
spec: {type: ExternalName, externalName: echo.default.svc.cluster.local, ports: [{name: grpc, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: elsewhere}
spec: {type: ExternalName, externalName: grpc.example.com, ports: [{name: grpc, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: default}
spec: {host: echo, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: other, namespace: elsewhere}
spec: {host: other, trafficPolicy: {tls: {mode: SIMPLE}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: default}
spec: {hosts: [echo], http: [{timeout: 3s, route: [{destination: {host: echo, subset: v1}}]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: default}
spec: {selector: {matchLabels: {app: echo}}, portLevelMtls: {8080: {mode: STRICT}}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asks, namespace: default}
spec: {action: CUSTOM, provider: {name: ask}, rules: [{to: [{operation: {ports: ["80"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: lets, namespace: default}
spec: {rules: [{from: [{source: {principals: ["*"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: tries, namespace: default, annotations: {istio.io/dry-run: "true"}}
spec: {action: DENY, rules: [{}]}
`

func newView(t *testing.T, proxy string) (*Generator, *view.View) {
	t.Helper()
	m := fixture.New(
		t,
		[]byte(world),
		[]byte(
			"extensionProviders: [{name: ask, envoyExtAuthzGrpc: {service: other.elsewhere.svc.cluster.local, port: 80}}]",
		),
	)
	p := fixture.Proxy(t, []byte(proxy))
	return NewGenerator(Envoy{cluster.NewGenerator(), endpoint.NewGenerator(), route.NewGenerator()}), m.View(p)
}

func named(t *testing.T, list []*resource.Resource, name string, into proto.Message) {
	t.Helper()
	for _, r := range list {
		if r.Name == name {
			decodeResource(r, into)
			return
		}
	}
	t.Fatalf("no %s", name)
}

const application = "{namespace: default, labels: {app: echo}, identity: true, generator: grpc, addresses: [10.9.9.9]}"

// TestClients checks that each name by which applications call a service is a target, also that of
// an alias, and that all have the one route of the service. An alias of a host outside the mesh is
// no target: its routes would never come.
func TestClients(t *testing.T) {
	g, v := newView(t, application)
	var names []string
	for _, r := range g.Clients(v) {
		names = append(names, r.Name)
	}
	want := strings.Fields(`echo.default.svc.cluster.local:80 echo.default:80 echo.default.svc:80 echo:80
		echo.default.svc.cluster.local:90 echo.default:90 echo.default.svc:90 echo:90
		inside.elsewhere.svc.cluster.local:80 inside.elsewhere:80 inside.elsewhere.svc:80
		other.elsewhere.svc.cluster.local:80 other.elsewhere:80 other.elsewhere.svc:80`)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, name := range []string{"echo:80", "inside.elsewhere:80"} {
		l, h := new(listenerv3.Listener), new(hcmv3.HttpConnectionManager)
		named(t, g.Clients(v), name, l)
		if err := l.GetApiListener().GetApiListener().UnmarshalTo(h); err != nil ||
			h.GetRds().GetRouteConfigName() != "outbound|80||echo.default.svc.cluster.local" {
			t.Errorf("the listener %s has the routes %q, %v", name, h.GetRds().GetRouteConfigName(), err)
		}
	}
	for name, cluster := range map[string]string{
		"outbound|80||echo.default.svc.cluster.local":    "outbound|80|v1|echo.default.svc.cluster.local",
		"outbound|90||echo.default.svc.cluster.local":    "outbound|90||echo.default.svc.cluster.local",
		"outbound|80||other.elsewhere.svc.cluster.local": "outbound|80||other.elsewhere.svc.cluster.local",
	} {
		r := g.Route(v, name)
		if r == nil {
			t.Errorf("no route %s", name)
			continue
		}
		c := new(routev3.RouteConfiguration)
		decodeResource(r, c)
		if c.GetName() != name || len(c.GetVirtualHosts()) != 1 ||
			!cmp.Equal(
				c.GetVirtualHosts()[0].GetDomains(),
				[]string{"*"},
			) || !cmp.Equal(r.Refers(), []string{cluster}) {
			t.Errorf("route %s is %v", name, c)
		}
	}
	for _, name := range []string{
		"80", "outbound|81||echo.default.svc.cluster.local",
		"outbound|80|v1|echo.default.svc.cluster.local", "outbound|80||nobody",
		"inbound|80||", "",
	} {
		if r := g.Route(v, name); r != nil {
			t.Errorf("route %q is %v", name, r)
		}
	}
}

// TestIdleClusters: a destination of weight 0 is connected to before it has a share.
func TestIdleClusters(t *testing.T) {
	const more = `
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: other, namespace: elsewhere}
spec:
  hosts: [other]
  http:
  - route:
    - {destination: {host: echo.default.svc.cluster.local, subset: v1}, weight: 0}
    - {destination: {host: echo.default.svc.cluster.local, subset: v2}, weight: 0}
    - {destination: {host: echo.default.svc.cluster.local, port: {number: 81}}, weight: 0}
    - {destination: {host: nobody}, weight: 0}
    - {destination: {host: other}, weight: 100}
`
	m := fixture.New(t, []byte(world+more), nil)
	g, v := NewGenerator(Envoy{
		cluster.NewGenerator(), endpoint.NewGenerator(), route.NewGenerator(),
	}), m.View(fixture.Proxy(t, []byte(application)))
	c := new(routev3.RouteConfiguration)
	decodeResource(g.Route(v, "outbound|80||other.elsewhere.svc.cluster.local"), c)
	routes := c.GetVirtualHosts()[0].GetRoutes()
	if len(routes) != 2 || routes[1].GetMatch().GetPath() != unusedPath ||
		routes[1].GetRoute().GetCluster() != "outbound|80|v1|echo.default.svc.cluster.local" {
		t.Errorf("routes are %v", routes)
	}
}

// TestClusters: clusters use the mesh's certificates where a rule requires it, and are never in
// plain text where TLS is required.
func TestClusters(t *testing.T) {
	g, v := newView(t, application)
	for name, want := range map[string]string{
		"outbound|80|v1|echo.default.svc.cluster.local":  "tlsCertificateProviderInstance",
		"outbound|80||other.elsewhere.svc.cluster.local": "file-root:", // which gRPC refuses
	} {
		c := new(clusterv3.Cluster)
		named(t, g.Clusters(v), name, c)
		text, err := protojson.Marshal(c.GetTransportSocket())
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the transport of %s is %s, %v; want %s", name, text, err, want)
		}
	}
	for _, r := range g.Clusters(v) {
		if !strings.HasPrefix(r.Name, "outbound|") {
			t.Errorf("a cluster %s", r.Name)
		}
	}
	again := g.Computed()
	if g.Clusters(v); g.Computed() != again {
		t.Error("clusters are made twice")
	}
}

// TestServers: a server gets a listener for each address that it may have, with the policies for
// its callers.
func TestServers(t *testing.T) {
	g, v := newView(t, application)
	list := g.Servers(v)
	if len(list) != 2*5 {
		t.Errorf("%d listeners", len(list))
	}
	for port, mutual := range map[string]bool{"8080": true, "9090": false} {
		l, h := new(listenerv3.Listener), new(hcmv3.HttpConnectionManager)
		named(t, list, "xds.istio.io/grpc/lds/inbound/10.9.9.9:"+port, l)
		named(t, list, "xds.istio.io/grpc/lds/inbound/[::]:"+port, new(listenerv3.Listener))
		chain := l.GetFilterChains()[0]
		if got := chain.GetTransportSocket() != nil; got != mutual {
			t.Errorf("port %s: mutual TLS %v", port, got)
		}
		if err := chain.GetFilters()[0].GetTypedConfig().UnmarshalTo(h); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range h.GetHttpFilters() {
			names = append(names, f.GetName())
		}
		// CUSTOM policies deny, and dry-run policies are left out.
		if diff := cmp.Diff(
			[]string{"envoy.filters.http.rbac", "envoy.filters.http.rbac.2", "envoy.filters.http.router"},
			names,
		); diff != "" {
			t.Errorf("port %s (-want +got):\n%s", port, diff)
			continue
		}
		r := new(httprbacv3.RBAC)
		if err := h.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(r); err != nil ||
			r.GetRules().GetAction() != rbacv3.RBAC_DENY || r.GetShadowRules() != nil {
			t.Errorf("the first filter is %v, %v", r, err)
		}
	}
	g, v = newView(t, strings.Replace(application, "app: echo", "app: echo, security.istio.io/tlsMode: istio", 1))
	l := new(listenerv3.Listener)
	named(t, g.Servers(v), "xds.istio.io/grpc/lds/inbound/10.9.9.9:9090", l)
	if l.GetFilterChains()[0].GetTransportSocket() == nil {
		t.Error("proxies use TLS for a server whose label announces it, but the server does not accept it")
	}
	g, v = newView(
		t,
		"{namespace: default, labels: {app: client}, identity: true, generator: grpc, ports: [7070, 7071, 7070]}",
	)
	if list := g.Servers(v); len(list) != 2*5 {
		t.Errorf("an application that no service selects, with two ports, has %d listeners", len(list))
	}
	named(t, g.Servers(v), "xds.istio.io/grpc/lds/inbound/[::]:7071", new(listenerv3.Listener))
	g, v = newView(t, "{namespace: default, labels: {app: client}, generator: grpc}")
	if list := g.Servers(v); list != nil {
		t.Errorf("an application that serves nothing has %d listeners", len(list))
	}
}
