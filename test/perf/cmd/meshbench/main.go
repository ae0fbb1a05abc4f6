// Command meshbench measures control planes with a fleet of simulated proxies. docs/BENCHMARKS.md
// explains it.
//
//	meshbench run --plane bin/pilot-discovery --size small,medium --json out.json
//	meshbench pair --a meshpilot=bin/pilot-discovery --b istiod=PATH --size medium
//	meshbench pair --a bin/pilot-discovery --b replay=bin/pilot-discovery --size medium
//	meshbench compare A.json B.json
//	meshbench table FILE...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/perf/replay"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	var failed failures
	switch {
	case err == nil:
	case errors.As(err, &failed):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "meshbench:", err)
		os.Exit(2)
	}
}

// failures are promises that were not kept, as against a benchmark that could not be run.
type failures []string

func (f failures) Error() string {
	text := fmt.Sprintf("%d failed:", len(f))
	for _, s := range f {
		text += "\n  " + s
	}
	return text
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "meshbench",
		Short:         "Measure control planes with simulated proxies",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(runCommand(), pairCommand(), compareCommand(), tableCommand(), replayCommand())
	return root
}

// replayCommand is started by target.Plane, in place of the control plane.
func replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:    target.ReplayCommand + " BINARY SETTINGS",
		Short:  "Replay the responses of a control plane",
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE:   func(c *cobra.Command, args []string) error { return replay.Run(c.Context(), args[0], args[1]) },
	}
}

func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare A.json B.json", Short: "Compare two results", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			a, err := report.Read(args[0])
			if err != nil {
				return err
			}
			b, err := report.Read(args[1])
			if err != nil {
				return err
			}
			report.Compare(c.OutOrStdout(), a, b)
			return nil
		},
	}
}

func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "table FILE...", Short: "Print results as tables", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := report.Read(args...)
			if err == nil {
				f.PrintTable(c.OutOrStdout())
			}
			return err
		},
	}
}
