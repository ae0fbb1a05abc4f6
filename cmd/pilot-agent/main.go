// pilot-agent starts the Envoy beside an application, reports its readiness, and drains and stops
// it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent/command"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	capture "github.com/meshpilot/meshpilot/internal/capture/iptables/command"
)

func main() { os.Exit(run()) }

// run runs the program and returns its exit status: Envoy's if that ended by itself. For another
// error, which it prints, the status is from capture.ExitCode. The first SIGINT or SIGTERM ends the
// program gracefully, the second at once. At SIGHUP the agent replaces Envoy if hot restart is
// enabled and Envoy runs, and otherwise ends gracefully.
func run() int {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	hurry := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		end()
		<-signals
		close(hurry)
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	root := command.New(command.Options{
		Environ: os.Environ(), Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Abort: hurry, Hangup: hangup,
		ExtraCommands: captureCommands,
	})
	err := root.ExecuteContext(ctx)
	var ended *envoy.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.Exit.Status() // already logged
	default:
		fmt.Fprintln(os.Stderr, "pilot-agent:", err)
		return capture.ExitCode(err)
	}
}

// captureCommands returns istio-iptables, which images without that program call through the agent,
// and istio-clean-iptables. Their log is written to standard error, because a dry run prints rules
// to standard output.
func captureCommands(logs *obs.LogOptions) []*cobra.Command {
	open := func() (iptables.Environment, error) {
		options := *logs
		options.Out = os.Stderr
		l, err := obs.NewLogs(options)
		if err != nil {
			return iptables.Environment{}, err
		}
		return iptables.System(l.Scope(obs.DefaultScope), os.Stdout), nil
	}
	return []*cobra.Command{
		capture.New(os.LookupEnv, capture.SystemUsers(), open),
		capture.NewClean(os.LookupEnv, capture.SystemUsers(), open),
	}
}
