package k8s

import (
	"context"
	"testing"

	"github.com/meshpilot/meshpilot/test/integration/k8s/story"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestStory is the first day of a user: nothing of it may fail, and no call may be lost.
func TestStory(t *testing.T) {
	scorecard.Check(t, 12, scorecard.Size("rolling restarts", 1))
	playStory(t, (*story.Stage).PlayIstio)
}

// TestGatewayAPIStory follows samples/gateway-api: nothing of it may fail, and no call may be lost while
// routes change and the Gateway's proxy is scaled and rolled.
func TestGatewayAPIStory(t *testing.T) {
	playStory(t, (*story.Stage).PlayGatewayAPI)
}

func playStory(t *testing.T, play func(*story.Stage, context.Context) error) {
	t.Helper()
	longtest.Test(t)
	cluster.RequireNode(t)
	envoy.RequireBinary(t)
	images, err := mesh.BuildImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Tier: cluster.Node, GatewayAPI: cluster.Standard, Images: images})
	stage, err := story.NewStage(c, audience{t})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	if err := play(stage, t.Context()); err != nil {
		t.Fatal(err)
	}
}

// audience is a test that hears the story.
type audience struct{ t *testing.T }

func (a audience) Scene(number, of int, title string) { a.t.Logf("%d/%d  %s", number, of, title) }
func (a audience) Say(format string, args ...any)     { a.t.Logf("  "+format, args...) }
func (a audience) Show(string)                        {}

func (a audience) Verdict(held bool, what, expected, saw string) {
	if held {
		a.t.Logf("  %s: %s", what, saw)
		return
	}
	a.t.Errorf("  %s: %s; expected: %s", what, saw, expected)
}
