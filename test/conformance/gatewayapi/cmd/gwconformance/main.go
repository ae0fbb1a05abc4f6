// gwconformance runs the conformance suite of the Gateway API on a cluster of this machine, and ends with status 1 if
// a test failed.
//
//	make conformance
//	make conformance RUN='HTTPRoute.*' CHANNEL=experimental KEEP=1
//	make conformance-inference
//
// It needs root: pods are processes in network namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/conformance/gatewayapi"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gwconformance:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	channel, log string
	keep         bool
	inference    bool
	set          []string
	run          gatewayapi.RunOptions
	repeat       int
}

func command() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use: "gwconformance", Short: "Run the conformance suite of the Gateway API",
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.play(cmd.Context()) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "build", Short: "Build the programs of the suite into the user's cache, if they are not there",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return gatewayapi.BuildPrograms(cmd.Context(), say) },
	})
	f := cmd.Flags()
	f.StringVar(&s.channel, "channel", string(cluster.Standard), "standard or experimental")
	f.StringVar(&s.log, "log", "", "file for the suite's output")
	f.BoolVar(&s.inference, "inference", false, "run the suite of the Gateway API Inference Extension instead")
	f.BoolVar(&s.keep, "keep", false, "leave the cluster until Ctrl-C after the run")
	f.StringArrayVar(&s.set, "set", nil, "a value of the control plane's chart, as NAME=VALUE")
	f.StringVar(&s.run.Class, "class", "istio", "the GatewayClass under test")
	f.StringSliceVar(&s.run.Profiles, "profiles", nil, "profiles to run (default all)")
	f.StringVar(&s.run.Tests, "run", "", "regular expression of tests; there is no report then")
	f.StringSliceVar(&s.run.Skip, "skip", nil, "tests to leave out")
	f.StringSliceVar(&s.run.Exempt, "exempt", nil, "features that are not claimed")
	f.StringVar(&s.run.Report, "report", "", "file for the report")
	f.IntVar(&s.repeat, "repeat", 1, "number of runs on the same cluster")
	return cmd
}

// say prints a line.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (s *settings) play(ctx context.Context) (err error) {
	var log io.Writer
	if s.log != "" {
		file, err := os.Create(s.log)
		if err != nil {
			return err
		}
		defer file.Close()
		log = file
	}
	e, err := gatewayapi.Start(ctx, gatewayapi.Options{
		Channel: cluster.GatewayAPI(s.channel), Inference: s.inference, Set: s.set, Output: say,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	logs := filepath.Join(e.Cluster.Dir(), "logs")
	say("KUBECONFIG=%s NODE_PID=%d LOGS=%s", e.Cluster.Kubeconfig(), e.Cluster.NodePID(), logs)
	var failures error
	for i := range s.repeat {
		run := s.run
		run.Log, run.Keep = log, s.keep || i < s.repeat-1
		result, err := e.Run(ctx, run)
		if err != nil {
			failures = errors.Join(failures, err)
			break
		}
		result.Print(os.Stdout)
		if n := result.Failed(); n > 0 {
			failures = errors.Join(failures, fmt.Errorf("%d tests failed", n))
		}
	}
	if s.keep && ctx.Err() == nil {
		say("the cluster stays until Ctrl-C")
		<-ctx.Done()
	}
	return failures
}
