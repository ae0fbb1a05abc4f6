package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestEgressImports analyzes egress listeners of Sidecars that import nothing, and some that do.
func TestEgressImports(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: ServiceEntry
metadata: {name: wild, namespace: shop}
spec: {hosts: ["*.example.com"], ports: [{name: tls, number: 443, protocol: TLS}]}
---
kind: VirtualService
metadata: {name: routes, namespace: shop}
spec: {hosts: [routes.example, "*.routes.example"], http: [{route: [{destination: {host: web}}]}]}
---
kind: Sidecar
metadata: {name: good, namespace: shop}
spec:
  egress:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["./web.shop.svc.cluster.local"]}
  - {port: {number: 3128, name: proxy, protocol: HTTP_PROXY}, hosts: ["shop/*"]}
  - {port: {number: 81, name: routes, protocol: HTTP}, hosts: ["*/routes.example"]}
  - {port: {number: 82, name: nothing, protocol: HTTP}, hosts: ["empty/*"]}
  - hosts: ["*/WEB.shop.svc.cluster.local", "./a.routes.example", "./*.example.com", "./*.nowhere", "~other/api.example.org"]
---
kind: Sidecar
metadata: {name: wrong, namespace: bank}
spec:
  egress:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: ["shop/web.shop.svc.cluster.local"]}
  - hosts: ["./web.shop.svc.cluster.local", "shop/a.example.com", "*/none.example.org"]
---
kind: Sidecar
metadata: {name: short, namespace: shop}
spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["./web"]}]}
---
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web}
status: {phase: Running, podIP: 10.1.1.2, podIPs: [{ip: 10.1.1.2}], conditions: [{type: Ready, status: "True"}]}
`), nil)
	var got []string
	for _, p := range New(honoured()).Analyze(m.Snapshot()) {
		got = append(got, p.Key.String()+": "+p.Field+": "+p.Reason)
	}
	const none = " imports nothing: no service or VirtualService of the namespace has the host"
	want := []string{
		`Sidecar/bank/wrong: spec.egress[0].port.number: no service that the hosts select has port 8080: the listener imports nothing`,
		`Sidecar/bank/wrong: spec.egress[1].hosts[0]: "./web.shop.svc.cluster.local"` + none + `; namespace "shop" has one`,
		`Sidecar/bank/wrong: spec.egress[1].hosts[1]: "shop/a.example.com"` + none,
		`Sidecar/bank/wrong: spec.egress[1].hosts[2]: "*/none.example.org"` + none,
		`Sidecar/shop/short: spec.egress[0].hosts[0]: "./web"` + none + `; the full name of the host is "web.shop.svc.cluster.local"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
