package route

import (
	"bytes"
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const routedService = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: svc-0}
spec: {parentRefs: [{group: "", kind: Service, name: svc-0}], rules: [{backendRefs: [{name: svc-0, port: 9080}]}]}
`

// TestByAddress: an HTTPRoute of a Service changes the virtual host of that Service alone, and not a
// byte remains when it is deleted. Derived RouteConfigurations equal new ones.
func TestByAddress(t *testing.T) {
	m, g := fixture.New(t, bigMesh(4, 0), nil), NewGenerator()
	p := fixture.Proxy(t, nil)
	generate := func(g *Generator) *resource.Resource { return g.Named(m.View(p), "9080") }
	before := generate(g)
	m.Apply(t, routedService)
	with := generate(g)
	if again := generate(NewGenerator()); !bytes.Equal(with.Body, again.Body) {
		t.Error("the derived RouteConfiguration differs from one that is planned afresh")
	}
	old, now := decodeHosts(t, before), decodeHosts(t, with)
	var merged *routev3.VirtualHost
	for name, host := range now {
		if host.GetMatcher() != nil {
			merged = host
		} else if !proto.Equal(host, old[name]) {
			t.Errorf("virtual host %s changed", name)
		}
	}
	if len(now) != len(old) || now["svc-0.default.svc.cluster.local:9080"] != nil || merged == nil {
		t.Fatalf("virtual hosts are %v, want one with a matcher in place of that of svc-0", now)
	}
	if n := len(merged.GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap()); n != 3 {
		t.Errorf("%d addresses are matched, want those of the 3 other services", n)
	}
	if err := merged.ValidateAll(); err != nil {
		t.Error(err)
	}
	direct := fixture.Proxy(t, []byte(`{interception: NONE}`))
	for _, host := range decodeHosts(t, g.Named(m.View(direct), "9080")) {
		if host.GetMatcher() != nil {
			t.Error("a proxy whose traffic is not captured routes by address")
		}
	}
	m.Delete(t, routedService)
	if after := generate(g); !bytes.Equal(before.Body, after.Body) || bytes.Contains(after.Body, []byte(mesh.DestinationHeader)) {
		t.Error("the RouteConfiguration without the HTTPRoute differs from the first one")
	}
}

func decodeHosts(t *testing.T, r *resource.Resource) map[string]*routev3.VirtualHost {
	t.Helper()
	c := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(r.Body, c); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]*routev3.VirtualHost{}
	for _, h := range c.GetVirtualHosts() {
		hosts[h.GetName()] = h
	}
	return hosts
}

// BenchmarkByAddress measures a RouteConfiguration of 1,000 services of which some have HTTPRoutes,
// derived from the previous one.
func BenchmarkByAddress(b *testing.B) {
	for _, routed := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("%d-routes", routed), func(b *testing.B) {
			var text bytes.Buffer
			for i := range routed {
				text.WriteString("---\n" + fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: svc-%[1]d}
spec: {parentRefs: [{group: "", kind: Service, name: svc-%[1]d}], rules: [{backendRefs: [{name: svc-%[1]d, port: 9080}]}]}
`, i))
			}
			m, g := fixture.New(b, append(bigMesh(1000, 0), text.Bytes()...), nil), NewGenerator()
			v := m.View(fixture.Proxy(b, nil))
			r, _ := parseName("9080")
			made := g.buildConfiguration(v, r)
			for b.Loop() {
				made = g.buildConfiguration(v, r)
			}
			b.ReportMetric(float64(len(made.Body)), "bytes")
		})
	}
}
