package main

import (
	"flag"
	"testing"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent/command"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	capture "github.com/meshpilot/meshpilot/internal/capture/iptables/command"
	"github.com/meshpilot/meshpilot/test/support/document"
)

var update = flag.Bool("update", false, "rewrite docs/FLAGS-AGENT.md") //nolint:gochecknoglobals // a flag

// TestFlagsAreDocumented: docs/FLAGS-AGENT.md is the list of flags.
func TestFlagsAreDocumented(t *testing.T) {
	const introduction = `# Flags of pilot-agent

This page is written by ` + "`go test ./cmd/pilot-agent -run TestFlagsAreDocumented -update`" + `. Most settings of the agent are environment
variables ([ENVIRONMENT-AGENT.md](ENVIRONMENT-AGENT.md)) and fields of ProxyConfig. The program ` + "`istio-iptables`" + ` and the command
` + "`istio-clean-iptables`" + ` have the flags of ` + "`pilot-agent istio-iptables`" + `. [RETIRED.md](RETIRED.md) lists flags that Istio has removed.
`
	noVariables := func(string) (string, bool) { return "", false }
	root := command.New(command.Options{ExtraCommands: func(*obs.LogOptions) []*cobra.Command {
		return []*cobra.Command{capture.New(noVariables, capture.SystemUsers(), nil)}
	}})
	document.CompareFlags(t, "../../docs/FLAGS-AGENT.md", introduction, root, *update)
}
