package listener

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml) and the
// proxy in proxy.yaml. Outputs are "plan" with the planned listeners, all of them or the ones that
// "only" names; "problems" with the reported Problems; "envoy NAME" with a listener as Envoy gets
// it; and "extension NAME" with an extension.
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		g := NewGenerator()
		v := caseView(t, c)
		c.Input("calls") // see TestCalls
		c.Compare(t, "plan", []byte(planText(g.Plan(v), strings.Fields(string(c.Input("only"))))))
		c.Compare(t, "problems", []byte(problemText(g.Problems(v))))
		for _, section := range c.Sections() {
			if n, ok := strings.CutPrefix(section, "envoy "); ok {
				c.Compare(t, section, golden.Resources(t, named(g.All(v), n)))
			}
			if n, ok := strings.CutPrefix(section, "extension "); ok {
				c.Compare(t, section, golden.Resources(t, []*resource.Resource{extensionNamed(g, v, n)}))
			}
		}
	})
}

func caseView(t testing.TB, c *golden.Case) *view.View {
	t.Helper()
	return fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
}

// planText prints Specs: all, or those with the names. "outbound" means all but the virtual ones.
func planText(specs []Spec, only []string) string {
	var b strings.Builder
	for i := range specs {
		s := &specs[i]
		if len(only) == 0 || slices.Contains(only, s.Name) || slices.Contains(only, "outbound") && !s.Inbound && s.Name != virtualOutbound {
			b.WriteString(s.String())
		}
	}
	return b.String()
}

func problemText(list []config.Problem) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(string(p.Severity) + ": " + p.String() + "\n")
	}
	return b.String()
}

func named(list []*resource.Resource, name string) []*resource.Resource {
	for _, r := range list {
		if r.Name == name {
			return []*resource.Resource{r}
		}
	}
	return nil
}
