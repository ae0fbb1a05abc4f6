package listener

import (
	"bytes"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
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

// TestDestinationHeader: the shared listener of a port sets the destination header only while a
// service of the port has routes and an address that no other service of the port has.
func TestDestinationHeader(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}, {name: http-other, port: 81}]}
---
kind: Service
metadata: {name: unrelated}
spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 82}]}
`), nil)
	g := NewGenerator()
	check := func(when string, want bool) {
		t.Helper()
		v := m.View(fixture.Proxy(t, nil))
		for name, port := range map[string]bool{"0.0.0.0_80": want, "0.0.0.0_82": false} {
			if got := setsDestination(g.Outbound(v), name); got != port {
				t.Errorf("%s: %s sets the header: %v, want %v", when, name, got, port)
			}
		}
		// Listeners that were derived from previous ones equal listeners that are planned from
		// scratch.
		if derived, fresh := resourceNames(g.Outbound(v)), resourceNames(NewGenerator().Outbound(v)); !slices.Equal(derived, fresh) {
			t.Errorf("%s: derived listeners %v, want %v", when, derived, fresh)
		}
	}
	check("without routes", false)
	const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {parentRefs: [{group: "", kind: Service, name: web}], rules: [{backendRefs: [{name: web, port: 80}]}]}
`
	m.Apply(t, route)
	check("with a route", true)
	const twin = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: twin}
spec: {hosts: [twin.example.org], addresses: [10.0.0.1], ports: [{name: http, number: 80, protocol: HTTP}], resolution: STATIC}
`
	m.Apply(t, twin)
	check("with a shared address", false)
	m.Delete(t, twin)
	check("with an address of its own again", true)
	m.Delete(t, route)
	check("without routes again", false)
}

func resourceNames(list []*resource.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

// setsDestination reports whether the listener of a name sets mesh.DestinationHeader.
func setsDestination(list []*resource.Resource, name string) bool {
	return slices.ContainsFunc(list, func(r *resource.Resource) bool {
		return r.Name == name && bytes.Contains(r.Body, []byte(mesh.DestinationHeader))
	})
}
