package translate_test

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// notLoadable are the cases that no Envoy loads from a static bootstrap, whatever its version.
var notLoadable = map[string]string{
	"listener_add": "the listener that the EnvoyFilter adds has no filter chain",
	"code":         "the module is a file that is not there",
}

// everyday is which share of the cases everyday tests load: one of so many. A case takes 0.2 s.
const everyday = 25

// TestOlderEnvoysAcceptAllCases loads all that is generated in each golden case, for proxies that
// state an older version, into Envoys of that version. Static configuration is read strictly, so a
// field that this version does not know fails the test, too.
func TestOlderEnvoysAcceptAllCases(t *testing.T) {
	for _, version := range envoy.Skewed() {
		if version.String() == envoy.Version {
			continue // the packages load their cases themselves
		}
		t.Run(version.String(), func(t *testing.T) {
			binary, n := envoy.RequireRelease(t, version), 0
			golden.Run(t, "*/testdata/*.txtar", func(t *testing.T, c *golden.Case) {
				for _, s := range c.Sections() {
					c.Input(s)
				}
				if n++; n%longtest.Rounds(everyday, 1) != 0 || notLoadable[c.Name] != "" {
					return
				}
				p := fixture.Proxy(t, c.Input("proxy.yaml"))
				if p.Metadata.Generator != "" || !p.Addresses[0].IsValid() {
					return // it has no Envoy
				}
				p.EnvoyVersion = version
				config := xdsdump.ConfigOf(
					t,
					xdsdump.AllResources(t, translate.NewTable(translate.Options{}), fixture.OfCase(t, c).View(p)),
				)
				if err := envoy.Refusal(t.Context(), binary, t.TempDir(), config); err != nil {
					t.Errorf("%.3000s", strings.ReplaceAll(err.Error(), "\n", " "))
				}
			})
		})
	}
}
