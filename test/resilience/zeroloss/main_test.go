package zeroloss

import (
	"flag"
	"os"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var (
	rounds       = flag.Int("rounds", scorecard.BySize(2, 40, 1000), "how often each event happens")
	programs     = flag.String("bin", "", "the directory of the programs; empty: they are built")
	controlPlane = flag.String("pilot-discovery", "", "another control plane to run instead: a program that takes pilot-discovery's flags")
	proxyProgram = flag.String("envoy", "", "another Envoy, or a program that stands in for it")
	wholeState   = flag.Bool("sotw", false, "proxies ask for the state of the world, rather than for differences")
	onDemand     = flag.Bool("on-demand", false, "proxies fetch clusters when they first use them")
	replicas     = flag.Int("replicas", 1, "how many control planes there are: the client has the first, echo-v1 the last")
	stalled      = flag.Int("stall", 0, "the control plane, from 1, that stands still for two seconds when a mode of mutual TLS changes; 0: none")
	only         = flag.String("events", "", "a regular expression: only the events that it matches")
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
