package loss

import (
	"flag"
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/testkit/netns"
)

var (
	rounds       = flag.Int("rounds", 2, "how often each event happens")
	programs     = flag.String("bin", "", "the directory of the programs; empty: they are built")
	controlPlane = flag.String("pilot-discovery", "", "another control plane to run instead: a program that takes pilot-discovery's flags")
	proxyProgram = flag.String("envoy", "", "another Envoy, or a program that stands in for it")
	wholeState   = flag.Bool("sotw", false, "proxies ask for the state of the world, rather than for differences")
	only         = flag.String("events", "", "a regular expression: only the events that it matches")
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
