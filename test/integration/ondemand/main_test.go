package ondemand

import (
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
