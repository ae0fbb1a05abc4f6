package main

import (
	"flag"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/document"
)

var update = flag.Bool("update", false, "rewrite docs/FLAGS.md") //nolint:gochecknoglobals // a flag

// TestFlagsAreDocumented: docs/FLAGS.md is the list of flags.
func TestFlagsAreDocumented(t *testing.T) {
	const introduction = `# Flags of pilot-discovery

This page is written by ` + "`go test ./cmd/pilot-discovery -run TestFlagsAreDocumented -update`" + `. Names and meanings are
those of istiod, where it has them. Unknown flags are reported and have no effect; [RETIRED.md](RETIRED.md) lists flags that Istio has
removed, [ENVIRONMENT.md](ENVIRONMENT.md) the environment variables, and [FLAGS-AGENT.md](FLAGS-AGENT.md) the flags of the agent.
`
	root := rootCommand(func(string) (string, bool) { return "", false })
	document.CompareFlags(t, "../../docs/FLAGS.md", introduction, root, *update)
}
