// pilotctl queries a control plane.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := cli.NewIn(environment())
	c.SetOut(os.Stdout)
	err := c.ExecuteContext(ctx)
	stop()
	if err != nil {
		var status *cli.StatusError
		if !errors.As(err, &status) || !status.HasRun() {
			fmt.Fprintln(os.Stderr, "pilotctl:", err)
		}
		os.Exit(cli.ExitCode(err))
	}
}

// environment returns the environment of the process. Without a home directory, Home is "" and no
// files of the user are read. Terminal is set if standard output is a terminal.
func environment() cli.Environment {
	e := cli.Environment{Variable: os.Getenv}
	if home, err := os.UserHomeDir(); err == nil {
		e.Home = home
	}
	if info, err := os.Stdout.Stat(); err == nil {
		e.Terminal = info.Mode()&os.ModeCharDevice != 0
	}
	return e
}
