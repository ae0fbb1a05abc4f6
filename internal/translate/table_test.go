package translate

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func TestTableIsWhole(t *testing.T) {
	table := NewTable(Options{})
	for _, g := range table.Generators {
		if (g.All == nil) == (g.Named == nil) {
			t.Errorf("%s must have either All or Named", g.TypeURL)
		}
		if g.Update != nil && g.All == nil || g.Affected != nil && g.Named == nil {
			t.Errorf("%s: a generator with Update needs All, one with Affected needs Named", g.TypeURL)
		}
		if table.Computed[g.TypeURL] == nil {
			t.Errorf("%s does not count its translations", g.TypeURL)
		}
	}
}

// generators returns the generators of a type.
func (t *Table) generators(typeURL string) []view.Generator {
	return slices.DeleteFunc(slices.Clone(t.Generators), func(g view.Generator) bool { return g.TypeURL != typeURL })
}

// everyResolution contains a service of each resolution, each with a subset.
const everyResolution = `
kind: Service
metadata: {name: static}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}, {name: udp, port: 81, protocol: UDP}]}
---
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, ports: [{name: tcp, port: 80}]}
---
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: static.default.svc.cluster.local, ports: [{name: http, port: 80}]}
---
kind: ServiceEntry
metadata: {name: dns}
spec: {hosts: [dns.example.com], resolution: DNS, ports: [{name: http, number: 80, protocol: HTTP}]}
---
kind: ServiceEntry
metadata: {name: one}
spec: {hosts: [one.example.com], resolution: DNS_ROUND_ROBIN, ports: [{name: http, number: 80, protocol: HTTP}]}
---
kind: DestinationRule
metadata: {name: all}
spec: {host: "*", subsets: [{name: v1, labels: {v: "1"}}]}
`

// datagrams contains a UDP listener with a route.
const datagrams = `
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: datagrams}
spec: {gatewayClassName: istio, listeners: [{name: udp, port: 5300, protocol: UDP}]}
---
kind: UDPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: datagrams}
spec: {parentRefs: [{name: datagrams}], rules: [{backendRefs: [{name: static, port: 81}]}]}
`

// TestClustersAndEndpointsAgree checks that packages cluster and endpoint agree on which clusters
// use EDS: exactly for those a change of endpoints is relevant to EDS.
func TestClustersAndEndpointsAgree(t *testing.T) {
	m := fixture.New(t, []byte(everyResolution+datagrams), nil)
	for _, proxy := range []string{"type: sidecar", "type: router", "type: router\nlabels: {gateway.networking.k8s.io/gateway-name: datagrams}"} {
		v := m.View(fixture.Proxy(t, []byte(proxy)))
		table := NewTable(Options{})
		var clusters []*resource.Resource
		for _, g := range table.generators(api.ClusterType) {
			clusters = append(clusters, g.All(v)...)
		}
		eds := table.generators(api.EndpointType)[0]
		told := 0
		for _, r := range clusters {
			c, ok := golden.Decode(t, r).(*clusterv3.Cluster)
			if !ok {
				t.Fatalf("%s is a %s", r.Name, r.TypeURL)
			}
			byEDS := c.GetType() == clusterv3.Cluster_EDS
			affected := len(eds.Affected(nil, v, snapshot.Delta{All: true}, []string{r.Name})) == 1
			if byEDS != affected {
				t.Errorf("%s, %s: by EDS %v, but EDS answers %v", proxy, r.Name, byEDS, affected)
			}
			if byEDS {
				told++
			}
		}
		if told == 0 || told == len(clusters) {
			t.Errorf("%s: %d of %d clusters use EDS: the test is not effective", proxy, told,
				len(clusters))
		}
	}
}

// TestScopeLosesNothing: the resources generated for the part of a Key that a generator declares
// equal those for the whole Key.
func TestScopeLosesNothing(t *testing.T) {
	m := fixture.New(t, []byte(everyResolution+`
---
kind: VirtualService
metadata: {name: labelled}
spec:
  hosts: [static]
  http:
  - match: [{sourceLabels: {app: web}}]
    route: [{destination: {host: static, subset: v1}}]
  - route: [{destination: {host: static}}]
---
kind: EndpointSlice
metadata: {name: static-1, labels: {kubernetes.io/service-name: static}}
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.1], zone: b}, {addresses: [10.1.0.2], zone: a}]
---
kind: ServiceEntry
metadata: {name: vip}
spec: {hosts: [vip.example.com], addresses: [10.9.0.1], resolution: STATIC, ports: [{name: tcp, number: 9080, protocol: TCP}]}
---
kind: VirtualService
metadata: {name: vip}
spec: {hosts: [vip.example.com], tcp: [{route: [{destination: {host: vip.example.com}}]}]}
---
kind: Gateway
metadata: {name: edge}
spec:
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: ISTIO_MUTUAL}}
  - {port: {number: 8443, name: external, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: "sds://cert"}}
  - {port: {number: 15443, name: auto, protocol: TLS}, hosts: ["*"], tls: {mode: AUTO_PASSTHROUGH}}
---
kind: VirtualService
metadata: {name: bound}
spec: {hosts: [static], gateways: [edge], http: [{route: [{destination: {host: static}}]}]}
`+datagrams+`
---
kind: EnvoyFilter
metadata: {name: more}
spec:
  configPatches:
  - applyTo: CLUSTER
    patch: {operation: ADD, value: {name: added, type: STATIC, connect_timeout: 1s}}
  - applyTo: LISTENER
    patch:
      operation: ADD
      value:
        name: added
        address: {socket_address: {address: 127.0.0.1, port_value: 7777}}
        filter_chains: [{filters: [{name: tcp, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: a, cluster: added}}]}]
  - applyTo: EXTENSION_CONFIG
    patch: {operation: ADD, value: {name: added, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}
---
kind: AuthorizationPolicy
metadata: {name: who}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}
---
kind: WasmPlugin
metadata: {name: module}
spec: {url: oci://example.com/a}
---
kind: ConfigMap
metadata: {name: roots}
data:
  ca.crt: |
    `+strings.ReplaceAll(rootCertificate(), "\n", "\n    ")), nil)
	full := view.Key{
		Type: mesh.SidecarProxy, Namespace: "default", Domain: "default.svc.cluster.local",
		SourceSelectors: "app=web",
		Location:        view.Location{Locality: mesh.Locality{Region: "r", Zone: "a"}, Network: "n", Cluster: "Kubernetes"},
		AddressFamilies: view.AddressFamilies{IPv4: true},
		Server:          view.Server{Inbound: "80/80/default/static.default.svc.cluster.local"},
		Interception:    "TPROXY",
		Upstream:        view.Upstream{SocketMark: 1337, CredentialServer: true},
		SelfDiscovery: view.SelfDiscovery{
			Service: mesh.ServiceKey{Namespace: "default", Host: "static.default.svc.cluster.local"},
			Port:    80,
		},
	}
	patched := full
	patched.EnvoyFilterPatches = m.Snapshot().PatchNames(snapshot.ProxyAttributes{Type: full.Type, Namespace: full.Namespace})
	patched.Policies = snapshot.PolicyNames{Authorization: "default/who;"}
	patched.Plugins = snapshot.PluginNames{Wasm: "default/module;"}
	router := full
	router.Type, router.Inbound = mesh.RouterProxy, ""
	router.Gateways = m.Snapshot().GatewayNames("default", map[string]string{"gateway.networking.k8s.io/gateway-name": "datagrams"})
	router.Gateway = view.GatewayKey{Ports: "80:8080", Unprivileged: true, Topology: "\x08\x02"}
	application := full
	application.Proxyless = view.ProxylessKey{Enabled: true, Addresses: "10.9.9.9"}
	own := view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte(`
proxyConfig:
  proxyHeaders: {preserveHttp1HeaderCase: true, server: {value: own}}
  connectionSettings: {clusterPerConnectionBufferLimitBytes: 4096, httpIdleTimeout: 600s}
`)))
	if own.ClusterOverrides == "" || own.ClusterOverrides == own.ProxyConfigOverrides {
		t.Fatalf("of %q clusters follow %q", own.ProxyConfigOverrides, own.ClusterOverrides)
	}
	ownRouter := router
	ownRouter.ProxyConfigOverrides, ownRouter.ClusterOverrides = own.ProxyConfigOverrides, own.ClusterOverrides
	for _, g := range NewTable(Options{}).Generators {
		if g.Scope == nil {
			continue
		}
		made := 0
		for _, k := range []view.Key{full, patched, router, application, own, ownRouter} {
			whole, part := everything(
				g,
				view.Build(m.Snapshot(), k),
			), everything(g, view.Build(m.Snapshot(), g.Scope(k)))
			if !slices.EqualFunc(
				whole,
				part,
				func(a, b *resource.Resource) bool { return a.Name == b.Name && a.Version == b.Version },
			) {
				t.Errorf("%s: other resources for the scope alone", g.TypeURL)
			}
			made += len(whole)
		}
		if made == 0 {
			t.Errorf("%s: no resources, the test is not effective", g.TypeURL)
		}
	}
}

// everything returns all resources of a generator, or those for some existing names.
func everything(g view.Generator, v *view.View) []*resource.Resource {
	if g.All != nil {
		return g.All(v)
	}
	var list []*resource.Resource
	for _, name := range []string{
		"80", "http.8080", "http_proxy", "outbound|80||static.default.svc.cluster.local", "outbound|80|v1|static.default.svc.cluster.local",
		"10.9.0.1_9080_tcp", "configmap://default/roots", "added", listener.PoliciesExtension,
		"extensions.istio.io/trafficextension/default.module~istio-translated-wasmplugin", mesh.LocalCluster,
	} {
		list = append(list, g.Named(v, name))
	}
	return slices.DeleteFunc(list, isNil)
}

// rootCertificate makes a certificate that can be trusted, in PEM.
func rootCertificate() string { return string(pki.Authority("root").CertificatePEM()) }

func isNil(r *resource.Resource) bool { return r == nil }
