package routing

import (
	"flag"
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

var (
	programs = flag.String("bin", "", "the directory of the programs; empty: they are built")
	only     = flag.String("cases", "", "a regular expression: really call only the cases whose TOPIC/NAME it matches")
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
