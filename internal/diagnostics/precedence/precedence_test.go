package precedence_test

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/precedence"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// The documents are as old as their position: the first one is the oldest.
const objects = `
kind: Service
metadata: {name: reviews, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 9080}]}
---
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews], http: [{delegate: {name: part}}]}
---
kind: VirtualService
metadata: {name: part, namespace: shop}
spec: {http: [{directResponse: {status: 500}}]}
---
kind: VirtualService
metadata: {name: second, namespace: shop}
spec: {hosts: [reviews.shop.svc.cluster.local], http: [{directResponse: {status: 500}}]}
---
kind: VirtualService
metadata: {name: private, namespace: shop}
spec: {hosts: [reviews], exportTo: ["."], http: [{directResponse: {status: 500}}]}
---
kind: VirtualService
metadata: {name: bytes, namespace: shop}
spec: {hosts: [reviews], tcp: [{route: [{destination: {host: reviews}}]}]}
---
kind: VirtualService
metadata: {name: edge, namespace: shop}
spec: {hosts: [shop.example.com], gateways: [edge], http: [{directResponse: {status: 200}}]}
---
kind: VirtualService
metadata: {name: edge-2, namespace: shop}
spec: {hosts: [shop.example.com], gateways: [edge], http: [{directResponse: {status: 200}}]}
---
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec: {host: reviews}
---
kind: DestinationRule
metadata: {name: subsets, namespace: shop}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
kind: DestinationRule
metadata: {name: all, namespace: istio-system}
spec: {host: "*.local"}
---
kind: ServiceEntry
metadata: {name: first, namespace: shop}
spec: {hosts: [out.example.com], resolution: DNS, ports: [{name: http, number: 80, protocol: HTTP}]}
---
kind: ServiceEntry
metadata: {name: second, namespace: shop}
spec: {hosts: [out.example.com], resolution: DNS, ports: [{name: http, number: 81, protocol: HTTP}]}
---
kind: ServiceEntry
metadata: {name: other, namespace: bank}
spec: {hosts: [out.example.com], resolution: DNS, ports: [{name: http, number: 80, protocol: HTTP}]}
---
kind: ServiceEntry
metadata: {name: shadow, namespace: shop}
spec: {hosts: [reviews.shop.svc.cluster.local], resolution: DNS, ports: [{name: http, number: 9080, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
kind: Gateway
metadata: {name: edge-2, namespace: shop}
spec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.example.com]}]}
---
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["*/*"]}]}
---
kind: Sidecar
metadata: {name: web, namespace: shop}
spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["*/*"]}]}
---
kind: Sidecar
metadata: {name: web-2, namespace: shop}
spec: {workloadSelector: {labels: {app: web, tier: front}}, egress: [{hosts: ["*/*"]}]}
---
kind: Sidecar
metadata: {name: api, namespace: shop}
spec: {workloadSelector: {labels: {app: api}}, egress: [{hosts: ["*/*"]}]}
---
kind: Sidecar
metadata: {name: root, namespace: istio-system}
spec: {egress: [{hosts: ["*/*"]}]}
---
kind: Telemetry
metadata: {name: mesh, namespace: istio-system}
spec: {accessLogging: [{disabled: true}]}
---
kind: Telemetry
metadata: {name: shop, namespace: shop}
spec: {accessLogging: [{disabled: true}]}
---
kind: Telemetry
metadata: {name: spare, namespace: shop}
spec: {accessLogging: [{disabled: true}]}
---
kind: PeerAuthentication
metadata: {name: mesh, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
kind: PeerAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, mtls: {mode: PERMISSIVE}}
---
kind: AuthorizationPolicy
metadata: {name: a, namespace: shop}
spec: {}
---
kind: AuthorizationPolicy
metadata: {name: b, namespace: shop}
spec: {action: DENY, rules: [{}]}
---
kind: WasmPlugin
metadata: {name: a, namespace: shop}
spec: {url: "file:///a.wasm"}
---
kind: TrafficExtension
metadata: {name: b, namespace: shop}
spec: {lua: {inlineCode: "function envoy_on_request(h) end"}}
---
kind: EnvoyFilter
metadata: {name: late, namespace: shop}
spec: {priority: 10, configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 1s}}}]}
---
kind: EnvoyFilter
metadata: {name: early, namespace: shop}
spec: {configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 2s}}}]}
`

// webLabels are the labels of the proxies of viewOf.
var webLabels = map[string]string{"app": "web", "tier": "front"}

// viewOf returns the View of a proxy of namespace shop.
func viewOf(t *testing.T, m *fixture.Mesh, kind mesh.ProxyType) *view.View {
	t.Helper()
	return m.View(&mesh.Proxy{
		ID: "web", Type: kind, Name: "web", Namespace: "shop", DNSDomain: "shop.svc.cluster.local",
		Labels: webLabels,
		Metadata: mesh.NodeMetadata{
			IstioVersion: "1.31.0", Namespace: "shop", TLSServerCertChain: "/c", TLSServerKey: "/k", TLSServerRootCert: "/r",
		},
	})
}

func TestFind(t *testing.T) {
	m := fixture.New(t, []byte(objects), nil)
	sidecar, router := viewOf(t, m, mesh.SidecarProxy), viewOf(t, m, mesh.RouterProxy)
	for _, c := range []struct {
		object string
		v      *view.View
		want   string // lines that begin like this, in order
	}{
		{"VirtualService/shop/reviews", sidecar, `
			delegates to VirtualService/shop/part
			is overridden by VirtualService/shop/private for host reviews.shop.svc.cluster.local: it is exported only to its own namespace
			takes precedence over VirtualService/shop/second for host reviews.shop.svc.cluster.local: it is older`},
		{"VirtualService/shop/part", sidecar, `
			is a delegate of VirtualService/shop/reviews
			is overridden by VirtualService/shop/private
			takes precedence over VirtualService/shop/second`},
		{"VirtualService/shop/bytes", sidecar, ``},
		{"VirtualService/shop/absent", sidecar, ``},
		{"VirtualService/shop/edge", sidecar, ``},
		{"VirtualService/shop/edge", router, `is merged before VirtualService/shop/edge-2 for host shop.example.com`},
		{"VirtualService/shop/edge-2", router, `is merged after VirtualService/shop/edge for host shop.example.com`},
		{"DestinationRule/shop/reviews", sidecar, `is merged before DestinationRule/shop/subsets for host reviews.shop.svc.cluster.local`},
		{"DestinationRule/shop/subsets", sidecar, `is merged after DestinationRule/shop/reviews for host reviews.shop.svc.cluster.local`},
		{"DestinationRule/istio-system/all", sidecar, `
			is overridden by DestinationRule/shop/reviews for host reviews.shop.svc.cluster.local: it is in the namespace of the client`},
		{"ServiceEntry/shop/first", sidecar, `
			is merged before ServiceEntry/shop/second for host out.example.com
			takes precedence over ServiceEntry/bank/other for host out.example.com: for proxies of namespace shop`},
		{"ServiceEntry/shop/second", sidecar, `is merged after ServiceEntry/shop/first`},
		{"ServiceEntry/bank/other", sidecar, `is overridden by ServiceEntry/shop/first for host out.example.com: proxies of namespace shop use`},
		{"ServiceEntry/shop/shadow", sidecar, `is overridden by Service/shop/reviews for host reviews.shop.svc.cluster.local: only the endpoints`},
		{"Gateway/shop/edge", sidecar, ``},
		{"Gateway/shop/edge", router, `is merged before Gateway/shop/edge-2 for port 80: it is older`},
		{"Gateway/shop/edge-2", router, `is merged after Gateway/shop/edge for port 80: the other one is older`},
		{"Sidecar/shop/web", sidecar, `
			takes precedence over Sidecar/istio-system/root for proxies of namespace shop: it selects the workload
			takes precedence over Sidecar/shop/default for proxies of namespace shop: it selects the workload
			takes precedence over Sidecar/shop/web-2 for proxies of namespace shop: it is older`},
		{"Sidecar/shop/web-2", sidecar, `is overridden by Sidecar/shop/web for proxies of namespace shop: it is older`},
		{"Sidecar/shop/api", sidecar, ``},
		{"Sidecar/shop/default", sidecar, `is overridden by Sidecar/shop/web for proxies of namespace shop: it selects the workload`},
		{"Sidecar/shop/default", router, ``},
		{"Telemetry/shop/shop", sidecar, `
			is merged before Telemetry/istio-system/mesh: settings of the workload
			takes precedence over Telemetry/shop/spare: it is older and has the same scope`},
		{"Telemetry/shop/spare", sidecar, `is overridden by Telemetry/shop/shop: it is older`},
		{"PeerAuthentication/shop/web", sidecar, `is merged before PeerAuthentication/istio-system/mesh`},
		{"PeerAuthentication/istio-system/mesh", sidecar, `is merged after PeerAuthentication/shop/web`},
		{"AuthorizationPolicy/shop/a", sidecar, `is combined with AuthorizationPolicy/shop/b: CUSTOM`},
		{"WasmPlugin/shop/a", sidecar, `is combined with TrafficExtension/shop/b`},
		{"EnvoyFilter/shop/late", sidecar, `is applied after EnvoyFilter/shop/early`},
		{"EnvoyFilter/shop/early", sidecar, `is applied before EnvoyFilter/shop/late`},
	} {
		parts := strings.Split(c.object, "/")
		found := precedence.Find(c.v, webLabels, config.Key{Kind: api.Kind(parts[0]), Namespace: parts[1], Name: parts[2]})
		var want []string
		for line := range strings.SplitSeq(c.want, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		}
		ok := len(found) == len(want)
		for i := range want {
			ok = ok && strings.HasPrefix(found[i].String(), want[i])
		}
		if !ok {
			t.Errorf("%s for a %s has the relations %q, want %q", c.object, c.v.Key.Type, found, want)
		}
	}
}
