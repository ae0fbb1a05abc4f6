package plugin

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml and the proxy in
// proxy.yaml. "places" lists the plugins of the proxy by place, in their order, "extensions" the
// resources sent to it, and "problems" the reported Problems.
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
		g := NewGenerator()
		var places, problems bytes.Buffer
		var extensions []*resource.Resource
		for p := range Of(v).All {
			fmt.Fprintln(&places, placeText(p))
			r := g.Named(v, p.Name)
			if r == nil {
				t.Fatalf("%s is not there", p.Name)
			}
			extensions = append(extensions, r)
			for _, problem := range Unhonoured(v.Snapshot.Config(p.Object)) {
				problem.Key = p.Object
				fmt.Fprintf(&problems, "%s: %s\n", problem.Severity, problem)
			}
		}
		for _, problem := range slices.Concat(Problems(v.Snapshot), EnvoyProblems(v)) {
			fmt.Fprintf(&problems, "%s: %s\n", problem.Severity, problem)
		}
		c.Compare(t, "places", places.Bytes())
		c.Compare(t, "problems", problems.Bytes())
		if c.Has("extensions") {
			c.Compare(t, "extensions", golden.Resources(t, extensions))
		}
		if name := nameOf(config.Key{Kind: "WasmPlugin", Namespace: "nowhere", Name: "x"}); g.Named(v, name) != nil {
			t.Error("an extension is returned for a plugin that does not exist")
		}
	})
}

// placeText describes the plugins at a place for all kinds of listeners. The ports are none, and
// two that cases use.
func placeText(p Place) string {
	s := fmt.Sprintf("%s %s", p.Object,
		[]string{"before authentication", "before authorization", "after authorization", "last"}[p.Phase])
	if p.Connections {
		s += ", of connections"
	}
	if p.Language == Lua {
		s += ", in Lua"
	}
	if p.Replaced {
		s += ", replaced"
	}
	for side, name := range []string{"inbound", "outbound", "at a gateway"} {
		if !p.AppliesToSide(Side(side)) {
			continue
		}
		s += ", " + name
		for _, port := range []uint32{0, 80, 8080} {
			if p.AppliesTo(Side(side), port) {
				s += fmt.Sprintf(" %d", port)
			}
		}
	}
	return s
}
