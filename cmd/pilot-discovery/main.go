// Command pilot-discovery runs the control plane of the mesh.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand(os.LookupEnv).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(-1)
	}
}

// rootCommand returns the command pilot-discovery with discovery, version and request. lookup reads
// environment variables. Unknown flags of the process's arguments cause only a warning.
func rootCommand(lookup func(string) (string, bool)) *cobra.Command {
	c := &cobra.Command{
		Use:   "pilot-discovery",
		Short: "The control plane of the mesh",
		Long:  "pilot-discovery reads services and rules, and serves every proxy its part of them as Envoy configuration.",
		// A runtime error is not a usage error.
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	requestAddress := "127.0.0.1:15014"
	c.AddCommand(discoveryCommand(lookup), command.Version(),
		command.Request("Call the control plane's own HTTP port and print the answer", &requestAddress))
	c.SetOut(os.Stdout)
	command.TolerateUnknownFlags(c, os.Args[1:], os.Stderr)
	command.AddCollateral(c, "meshpilot Discovery")
	return c
}
