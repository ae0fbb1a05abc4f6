// Command consulbench measures services from a real Consul server: how long after a change of a health
// check an xDS client receives it and Envoy uses it, and the CPU time that reading costs, beside a program that polls
// all services. docs/BENCHMARKS.md explains it.
//
//	consulbench --consul PATH --plane bin/pilot-discovery
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consulbench:", err)
		os.Exit(1)
	}
}

// options describe a run.
type options struct {
	consul, plane       string // programs
	envoy               string // a program; "" measures no Envoy
	dir                 string // of temporary files, Consul's data too
	services, instances int    // instances of each service
	rate                float64
	duration            time.Duration
	queries             int // --consulQueries; 0: one for each service
	poll                time.Duration
	goal                time.Duration // of the 99th percentile; 0: none
}

func rootCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "consulbench", Short: "Measure services from Consul", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&o.consul, "consul", "", "path of a Consul program")
	f.StringVar(&o.plane, "plane", "bin/pilot-discovery", "path of a pilot-discovery")
	f.StringVar(&o.envoy, "envoy", "", "path of an Envoy, in which changes are measured too (default: none)")
	f.StringVar(&o.dir, "dir", "", "directory for Consul's data (default: that of temporary files)")
	f.IntVar(&o.services, "services", 1000, "services")
	f.IntVar(&o.instances, "instances", 10, "instances of each service")
	f.Float64Var(&o.rate, "rate", 50, "health changes a second")
	f.DurationVar(&o.duration, "duration", 60*time.Second, "how long health changes")
	f.IntVar(&o.queries, "queries", 0, "--consulQueries of the control plane; 0: one for each service")
	f.DurationVar(&o.poll, "poll", 0, "also measure a program that polls all services with this interval; 0: do not")
	f.DurationVar(&o.goal, "goal", 0, "fail if the 99th percentile is longer, in Envoy if there is one; 0: no goal")
	c.AddCommand(pollCommand())
	return c
}
