package sidecars

import (
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/testkit/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
