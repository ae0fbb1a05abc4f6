package endpoint_test

import (
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml,
// proxy.yaml), outputs the assignments in "endpoints NAME".
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
		g := endpoint.NewGenerator()
		for _, section := range c.Sections() {
			if name, ok := strings.CutPrefix(section, "endpoints "); ok {
				r := g.Named(v, name)
				if name == mesh.LocalCluster {
					r = g.Local(v, name)
				}
				c.Compare(t, section, golden.Resources(t, []*resource.Resource{r}))
			}
		}
	})
}

// TestEnvoyLoadsGoldens loads the assignments of every case into Envoy, each in its cluster.
func TestEnvoyLoadsGoldens(t *testing.T) {
	envoy.RequireBinary(t)
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
		all := cluster.NewGenerator().All(v)
		g := endpoint.NewGenerator()
		for _, r := range slices.Clone(all) {
			if strings.HasPrefix(r.Name, "outbound|") {
				all = append(all, g.Named(v, r.Name))
			}
		}
		config := envoy.FromResources(t, all...)
		// Clusters that do not use EDS have no endpoints here, and cannot have an assignment beside
		// them.
		config.Endpoints = slices.DeleteFunc(
			config.Endpoints,
			func(a *endpointv3.ClusterLoadAssignment) bool { return len(a.GetEndpoints()) == 0 },
		)
		envoy.Validate(t, config)
	})
}
