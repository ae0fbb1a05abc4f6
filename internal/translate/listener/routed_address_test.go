package listener

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestRoutesApplyByAddress: a Service with an HTTPRoute has a listener for its address, whose route
// matches any host, while the HTTPRoute exists.
func TestRoutesApplyByAddress(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
`), nil)
	p, g := fixture.Proxy(t, nil), NewGenerator()
	named := func() map[string]bool {
		names := map[string]bool{}
		for _, s := range g.Plan(m.View(p)) {
			names[s.Name] = true
		}
		return names
	}
	const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {parentRefs: [{group: "", kind: Service, name: web}], rules: [{backendRefs: [{name: web, port: 80}]}]}
`
	if named()["10.0.0.1_80"] {
		t.Fatal("the address has a listener without a route")
	}
	old := m.View(p)
	s, d := m.Apply(t, route)
	if !g.OutboundTouched(old, s, d) {
		t.Error("a new HTTPRoute does not touch listeners")
	}
	found := false
	for _, spec := range g.Plan(m.View(p)) {
		if spec.Name == "10.0.0.1_80" {
			for _, c := range append(spec.Chains, spec.Default) {
				found = found || c.HTTP != nil && c.HTTP.Route == "web.default.svc.cluster.local:80"
			}
		}
	}
	if !found {
		t.Errorf("no listener has the routes of the address: %v", named())
	}
	if !named()["0.0.0.0_80"] {
		t.Error("requests to other addresses have no listener")
	}
	m.Delete(t, route)
	if named()["10.0.0.1_80"] {
		t.Error("the listener stays without its route")
	}
}
