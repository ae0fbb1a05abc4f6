// pilotctl queries a control plane.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := cli.New(os.Getenv("KUBECONFIG"))
	c.SetOut(os.Stdout)
	err := c.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pilotctl:", err)
		os.Exit(cli.ExitCode(err))
	}
}
