package route

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestGateways runs the cases of gateways. They have the same sections as those of TestGolden;
// Envoy loads all of their routes.
func TestGateways(t *testing.T) {
	var all []*routev3.RouteConfiguration
	golden.Run(t, "testdata/gateway/*.txtar", func(t *testing.T, c *golden.Case) {
		g := NewGenerator()
		v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
		named := func(name string) *routev3.RouteConfiguration { return decoded(t, g.Named(v, name)) }
		for _, section := range c.Sections() {
			if name, ok := strings.CutPrefix(section, "route "); ok {
				c.Compare(t, section, rendered(t, g.Named(v, name)))
				if r := named(name); r != nil {
					all = append(all, r)
				}
			}
		}
		var out bytes.Buffer
		for _, call := range calls(t, c) {
			fmt.Fprintf(&out, "%s => %s\n", call.text, call.answer(t, named))
		}
		c.Compare(t, "calls", out.Bytes())
	})
	envoy.Validate(t, envoy.Config{Routes: all})
}

// TestOneEditTranslatesOneHostOfAGateway: of many VirtualServices at one port an edit of one costs
// one virtual host.
func TestOneEditTranslatesOneHostOfAGateway(t *testing.T) {
	m := fixture.New(t, manyBound(50), nil)
	p, g := fixture.Proxy(t, []byte("type: router")), NewGenerator()
	old := m.View(p)
	before, made := g.Named(old, "http.80"), g.Computed()
	if made != 50 {
		t.Fatalf("%d virtual hosts were made, want 50", made)
	}
	s, d := m.Apply(t, boundService(7, "v2"))
	v := view.Build(s, old.Key)
	if got := g.Affected(old, v, d, []string{"http.80", "http.81"}); !slices.Equal(got, []string{"http.80"}) {
		t.Errorf("affected are %v", got)
	}
	after := g.Named(v, "http.80")
	if g.Computed() != made+1 || after.Version == before.Version {
		t.Errorf("%d virtual hosts were built for the edit of one VirtualService, want 1", g.Computed()-made)
	}
	s, d = m.Apply(
		t,
		"kind: VirtualService\nmetadata: {name: of-others}\nspec: {hosts: [x.example.com], gateways: [others], http: [{directResponse: {status: 200}}]}",
	)
	if got := g.Affected(v, view.Build(s, v.Key), d, []string{"http.80"}); len(got) > 0 {
		t.Errorf("a VirtualService of another gateway affects %v", got)
	}
	runtime.KeepAlive(before)
}
