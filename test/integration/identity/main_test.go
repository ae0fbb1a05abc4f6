package identity

import (
	"flag"
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var (
	rounds   = flag.Int("rounds", scorecard.BySize(0, 5, 20), "how often roots are rotated, and the authority is taken away, besides once")
	programs = flag.String("bin", "", "the directory of the programs; empty: they are built")
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
