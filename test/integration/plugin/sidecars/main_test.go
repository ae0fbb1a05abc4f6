package sidecars

import (
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
