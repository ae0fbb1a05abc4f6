package nametable_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestGolden runs every case. Inputs are the user's objects in config.yaml and the proxy in
// proxy.yaml, the output is the table in "names".
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		v := fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
		list := nametable.NewGenerator().All(v)
		if len(list) != 1 {
			t.Fatalf("%d resources, want one table", len(list))
		}
		c.Compare(t, "names", golden.YAML(t, decoded(t, list[0].Body)))
	})
}
