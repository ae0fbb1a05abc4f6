package k8s

import (
	"context"
	"flag"
	"testing"

	"github.com/meshpilot/meshpilot/test/integration/k8s/story"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var withUpgrade = flag.Bool("upgrade", false, "run TestUpgrade, which takes some five minutes") //nolint:gochecknoglobals // a flag

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

// TestUpgrade follows docs/UPGRADE.md from the charts of the release before this one: nothing of it may
// fail, and no call may be lost during upgrades, rollbacks, and moves between revisions.
func TestUpgrade(t *testing.T) {
	if !*withUpgrade {
		t.Skip("it takes some five minutes: `make upgrade` runs it")
	}
	story.RunTest(t, nil, (*story.Stage).PlayUpgrade)
}

func playStory(t *testing.T, play func(*story.Stage, context.Context) error) {
	t.Helper()
	longtest.Test(t)
	story.RunTest(t, nil, play)
}
