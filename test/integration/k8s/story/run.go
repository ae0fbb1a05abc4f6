package story

import (
	"context"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// RunTest plays a story on a cluster of its own, and fails the test with it. images take precedence
// over those of this checkout. The test is skipped without root.
func RunTest(t *testing.T, images image.Map, play func(*Stage, context.Context) error) {
	t.Helper()
	cluster.RequireNode(t)
	envoy.RequireBinary(t)
	own, err := mesh.BuildImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{
		Tier:       cluster.Node,
		GatewayAPI: cluster.Standard,
		Images:     append(images, own...),
	})
	stage, err := NewStage(c, testAudience{t})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	if err := play(stage, t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testAudience writes the story to the log of a test, and fails it for unexpected results.
type testAudience struct{ t *testing.T }

func (a testAudience) Scene(number, of int, title string) { a.t.Logf("%d/%d  %s", number, of, title) }
func (a testAudience) Say(format string, args ...any)     { a.t.Logf("  "+format, args...) }
func (a testAudience) Show(string)                        {}

func (a testAudience) Verdict(held bool, what, expected, saw string) {
	if held {
		a.t.Logf("  %s: %s", what, saw)
		return
	}
	a.t.Errorf("  %s: %s; expected: %s", what, saw, expected)
}
