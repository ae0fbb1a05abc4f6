package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const shop = `
kind: Service
metadata: {name: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: VirtualService
metadata: {name: cart, namespace: teams}
spec: {http: [{match: [{uri: {prefix: /cart}}], route: [{destination: {host: shop.default.svc.cluster.local}}]}]}
---
kind: VirtualService
metadata: {name: root}
spec: {hosts: [a.com], http: [{delegate: {name: cart, namespace: teams}}]}
---
kind: Gateway
metadata: {name: edge}
spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
`

func TestVirtualServices(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		want   []string // of the object x: field: reason
	}{
		"all is well": {`
kind: VirtualService
metadata: {name: x}
spec:
  hosts: [shop]
  gateways: [mesh, edge]
  http:
  - match: [{gateways: [edge]}]
    delegate: {name: cart, namespace: teams}
  - match: [{gateways: [mesh]}]
    route: [{destination: {host: shop}}]`, nil},
		"a route of the Gateway API for its host": {`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route}
spec: {parentRefs: [{group: "", kind: Service, name: shop}], rules: [{backendRefs: [{name: shop, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: another}
spec: {parentRefs: [{group: "", kind: Service, name: shop}], rules: [{backendRefs: [{name: none, port: 80}]}]}
---
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], http: [{route: [{destination: {host: shop}}]}]}`,
			[]string{`spec.hosts[0]: HTTPRoute "default/route" has the host "shop.default.svc.cluster.local" too and goes first: sidecars that see both use these rules only where none of its routes are for them`}},
		"a TCPRoute for its host": {`
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: route}
spec: {parentRefs: [{group: "", kind: Service, name: shop}], rules: [{backendRefs: [{name: shop, port: 80}]}]}
---
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], tcp: [{route: [{destination: {host: shop}}]}]}`,
			[]string{`spec.hosts[0]: TCPRoute "default/route" has the host "shop.default.svc.cluster.local" too and takes precedence: ` +
				`sidecars that see both do not use the tcp and tls routes for its ports`}},
		"delegate that is not there": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], http: [{delegate: {name: nobody}}]}`,
			[]string{`spec.http[0].delegate: there is no VirtualService "nobody" in namespace "default": the route is left out`}},
		"delegate that does not fit": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], http: [{match: [{uri: {prefix: /books}}], delegate: {name: cart, namespace: teams}}]}`,
			[]string{`spec.http[0].delegate: http[0] of VirtualService "teams/cart" is left out: its match[0].uri does not lie within that of the route that delegates`}},
		"its own delegate": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], http: [{delegate: {name: x}}]}`,
			[]string{`spec.http[0].delegate: VirtualService "default/x" has hosts of its own, and a delegate must not: the route is left out`}},
		"nobody's delegate": {`
kind: VirtualService
metadata: {name: x}
spec: {http: [{route: [{destination: {host: shop}}]}]}`,
			[]string{`spec.hosts: there are none, and no VirtualService delegates to this one: its routes are not in use`}},
		"unknown gateways": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], gateways: [edge, ingress, far/edge], http: [{match: [{gateways: [edge, mesh]}], route: [{destination: {host: shop}}]}]}`,
			[]string{
				`spec.gateways[1]: there is no Gateway "default/ingress": the rules are not in use there`,
				`spec.gateways[2]: there is no Gateway "far/edge": the rules are not in use there`,
				`spec.http[0].match[0].gateways[1]: the rules are not for gateway "mesh": the match never holds there`,
			}},
		"a host that an older one has": {`
kind: VirtualService
metadata: {name: x, namespace: other}
spec: {hosts: [b.com, a.com], http: [{route: [{destination: {host: shop.default.svc.cluster.local}}]}]}`,
			[]string{`spec.hosts[1]: VirtualService "default/root" has the host "a.com" too and goes first: sidecars that see both use these rules only where none of its routes are for them`}},
		"a host that an older one has at gateways": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [a.com], gateways: [edge], http: [{route: [{destination: {host: shop}}]}]}`, nil},
		"a host that is kept to the namespace": {`
kind: VirtualService
metadata: {name: x, namespace: other}
spec: {hosts: [a.com], exportTo: [.], http: [{route: [{destination: {host: shop.default.svc.cluster.local}}]}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(shop+tt.object), nil)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				if p.Key.Name == "x" {
					got = append(got, p.Field+": "+p.Reason)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
