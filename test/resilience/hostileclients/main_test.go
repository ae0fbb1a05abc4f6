package hostileclients

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var (
	duration = flag.Duration("duration", 0,
		"how long all attacks take together, besides the start of the victims; 0: 35s, longer in `make scorecard`")
	each = flag.Duration("each", 0, "how long each attack takes; 0: its share of -duration")
	// Other binaries, to compare releases.
	planeProgram = flag.String("pilot-discovery", "", "the pilot-discovery to attack; empty: it is built")
	agentProgram = flag.String("pilot-agent", "", "the pilot-agent to attack; empty: it is built")
	reportFile   = flag.String("report", "", "a file for the table of results, in Markdown")
	fresh        = flag.Bool("fresh", false, "start the control plane again before each attack")
)

// attackTime is how long all attacks take together.
func attackTime() time.Duration {
	if *duration > 0 {
		return *duration
	}
	return scorecard.BySize(35*time.Second, 5*time.Minute, 24*time.Hour)
}

// attackerVariable is set in the environment of a process that is to run one attack instead of the
// tests.
const attackerVariable = "MESHPILOT_ATTACKER"

func TestMain(m *testing.M) {
	if os.Getenv(attackerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := runAttacker(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1)
	}
}
