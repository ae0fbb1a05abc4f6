package route

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml,
// proxy.yaml). Outputs are the RDS resources in "route NAME", and the results of requests in
// "calls", whose lines are "NAME METHOD URL [HEADER=VALUE] => answer".
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		g := NewGenerator()
		v := caseWorld(t, c).view()
		for _, section := range c.Sections() {
			if name, ok := strings.CutPrefix(section, "route "); ok {
				c.Compare(t, section, rendered(t, g.Named(v, name)))
			}
		}
		if c.Has("calls") {
			var out bytes.Buffer
			for _, call := range calls(t, c) {
				fmt.Fprintf(&out, "%s => %s\n", call.text, call.answer(t, func(name string) *routev3.RouteConfiguration {
					return decoded(t, g.Named(v, name))
				}))
			}
			c.Compare(t, "calls", out.Bytes())
		}
	})
}

// caseWorld reads a case, and fails if it has an object that validation would keep out, as only the
// cases "invalid_…" may.
func caseWorld(t testing.TB, c *golden.Case) *world {
	t.Helper()
	list, err := events(c.Input("config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Config != nil && !isValid(e.Config) && !strings.HasPrefix(c.Name, "invalid_") {
			t.Errorf("invalid: %v", config.Validate(e.Config))
		}
	}
	return newWorld(t, c.Input("config.yaml"), c.Input("mesh.yaml"), c.Input("proxy.yaml"))
}

func rendered(t testing.TB, r *resource.Resource) []byte {
	t.Helper()
	if r == nil {
		return []byte("none\n")
	}
	decoded(t, r)
	return golden.Resources(t, []*resource.Resource{r})
}

// decoded returns the message. It fails the test unless the bytes are its canonical encoding.
func decoded(t testing.TB, r *resource.Resource) *routev3.RouteConfiguration {
	t.Helper()
	if r == nil {
		return nil
	}
	m := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(r.Body, m); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, r.Body) {
		t.Errorf("%s: %d bytes are not the canonical %d", r.Name, len(r.Body), len(again))
	}
	return m
}
