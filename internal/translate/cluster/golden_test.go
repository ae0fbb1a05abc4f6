package cluster

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml,
// proxy.yaml). Outputs are the "names" of all clusters, "cluster NAME" for one of them, and
// "problems" with the fields of rules without effect.
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		clusters := clustersOf(t, c)
		for _, section := range c.Sections() {
			if name, ok := strings.CutPrefix(section, "cluster "); ok {
				c.Compare(t, section, golden.Resources(t, named(t, clusters, name)))
			}
		}
		if c.Has("names") {
			c.Compare(t, "names", []byte(strings.Join(names(clusters), "\n")))
		}
		c.Compare(t, "problems", problems(t, c))
	})
}

// TestEnvoyLoadsGoldens loads the clusters of all cases into one Envoy, with the case as prefix of
// their names.
func TestEnvoyLoadsGoldens(t *testing.T) {
	envoy.RequireBinary(t)
	var all envoy.Config
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		for _, one := range envoy.FromResources(t, clustersOf(t, c)...).Clusters {
			one.Name = path.Base(t.Name()) + " " + one.GetName()
			all.Clusters = append(all.Clusters, one)
		}
	})
	envoy.Validate(t, all)
}

func clustersOf(t *testing.T, c *golden.Case) []*resource.Resource {
	t.Helper()
	v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
	set, err := resource.NewSet(NewGenerator().All(v))
	if err != nil {
		t.Fatal(err)
	}
	return set.List()
}

func named(t *testing.T, list []*resource.Resource, name string) []*resource.Resource {
	t.Helper()
	i := slices.IndexFunc(list, func(r *resource.Resource) bool { return r.Name == name })
	if i < 0 {
		t.Errorf("no cluster %q", name)
		return nil
	}
	return list[i : i+1]
}

func names(list []*resource.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

func problems(t *testing.T, c *golden.Case) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, r := range rules(t, c) {
		for _, p := range Unhonoured(config.Spec[*networking.DestinationRule](r)) {
			p.Key = r.Key
			out.WriteString(p.String() + "\n")
		}
	}
	return out.Bytes()
}

func rules(t *testing.T, c *golden.Case) []*config.Config {
	t.Helper()
	all, err := fixture.Decode(c.Input("config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c *config.Config) bool { return c.Kind != api.DestinationRule })
}
