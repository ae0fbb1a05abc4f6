// istio-iptables redirects the TCP traffic of a pod to its sidecar proxy.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	capture "github.com/meshpilot/meshpilot/internal/capture/iptables/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(capture.ExitCode(err))
}

// run parses the arguments of the process and runs the command. Logs are written to standard error.
func run(ctx context.Context) error {
	// The log is written to standard error, because a dry run prints rules to standard output.
	logOptions := obs.LogOptions{Out: os.Stderr}
	cmd := capture.New(os.LookupEnv, capture.SystemUsers(), func() (iptables.Environment, error) {
		logs, err := obs.NewLogs(logOptions)
		if err != nil {
			return iptables.Environment{}, err
		}
		return iptables.System(logs.Scope(obs.DefaultScope), os.Stdout), nil
	})
	command.AddLogFlags(cmd.PersistentFlags(), &logOptions)
	cmd.AddCommand(command.Version())
	return cmd.ExecuteContext(ctx)
}
