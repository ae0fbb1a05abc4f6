// Command dataplanebench measures what the configuration of control planes costs sidecars: memory,
// start-up and bytes, latency and CPU time of requests. docs/BENCHMARKS.md explains it.
//
//	dataplanebench sizes --envoy PATH --plane meshpilot=bin/pilot-discovery --plane istiod=PATH
//	dataplanebench load --envoy PATH --capture bin/istio-iptables --plane bin/pilot-discovery --with-istiod
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/perf/dataplane"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/program"
)

func main() {
	if err := rootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "dataplanebench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	dataplane.Options

	planes []string
	istiod bool
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "dataplanebench", Short: "Measure what configuration costs sidecars", SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(sizesCommand(), loadCommand())
	return root
}

func sizesCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "sizes", Short: "Measure memory, start-up and bytes of one sidecar", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return o.runInSandbox(func(ctx context.Context) error {
				sizes, err := dataplane.MeasureSizes(ctx, o.Options)
				dataplane.PrintTable(os.Stdout, sizes)
				return err
			})
		},
	}
	o.addFlags(c.Flags())
	c.Flags().IntSliceVar(&o.Services, "services", []int{100, 1000, 5000}, "sizes of the meshes")
	return c
}

func loadCommand() *cobra.Command {
	var o options
	var protocols []string
	c := &cobra.Command{
		Use: "load", Short: "Measure latency and CPU time of requests through two sidecars", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.selectLoads(protocols); err != nil {
				return err
			}
			return o.runInSandbox(func(ctx context.Context) error {
				loads, err := dataplane.MeasureLoads(ctx, o.Options)
				dataplane.PrintLoads(os.Stdout, loads)
				return err
			})
		},
	}
	o.addFlags(c.Flags())
	c.Flags().IntSliceVar(&o.Services, "services", []int{100}, "size of the mesh")
	c.Flags().StringVar(&o.Capture, "capture", "bin/istio-iptables", "path of an istio-iptables")
	c.Flags().IntSliceVar(&o.Rates, "rate", []int{1000, 5000}, "requests a second")
	c.Flags().StringSliceVar(&o.Scenes, "scene", nil,
		"scenes to measure (default all): "+strings.Join(dataplane.Scenes(), ", "))
	c.Flags().StringSliceVar(&protocols, "protocol", nil, "protocols to measure (default all of a scene)")
	c.Flags().BoolVar(&o.AtOnce, "at-once", false,
		"measure all control planes at the same time, for ratios of CPU time on a busy machine")
	c.Flags().DurationVar(&o.Duration, "duration", 5*time.Second, "time of each measurement")
	return c
}

// selectLoads sets the protocols, and refuses names of protocols and scenes that do not exist.
func (o *options) selectLoads(protocols []string) error {
	for _, p := range protocols {
		if !slices.Contains(dataplane.Protocols(), dataplane.Protocol(p)) {
			return fmt.Errorf("--protocol: unknown protocol %q", p)
		}
		o.Protocols = append(o.Protocols, dataplane.Protocol(p))
	}
	for _, s := range o.Scenes {
		if !slices.Contains(dataplane.Scenes(), s) {
			return fmt.Errorf("--scene: unknown scene %q", s)
		}
	}
	return nil
}

// addFlags adds the common flags.
func (o *options) addFlags(f *pflag.FlagSet) {
	o.Progress = os.Stderr
	f.StringVar(&o.Envoy, "envoy", "", "path of an Envoy")
	f.StringArrayVar(&o.planes, "plane", []string{"bin/pilot-discovery"}, "control planes: meshpilot=BINARY, istiod=BINARY")
	f.BoolVar(&o.istiod, "with-istiod", false, "also measure the istiod of make compat, which is built the first time")
	f.IntVar(&o.Rounds, "rounds", 3, "how often each is measured")
	f.StringVar(&o.Dir, "dir", "", "directory for meshes, logs and dumps (default a new temporary one, removed afterwards)")
}

// runInSandbox runs this program again in network namespaces of its own. What needs the machine's network
// is done before.
func (o *options) runInSandbox(run func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.findPlanes(ctx); err != nil {
		return err
	}
	code, err := netns.Run(func() int {
		if err := o.runIn(ctx, run); err != nil {
			fmt.Fprintln(os.Stderr, "dataplanebench:", err)
			return 1
		}
		return 0
	})
	if err == nil && code != 0 {
		os.Exit(code) // the error is printed already
	}
	return err
}

// findPlanes sets the control planes by the flags.
func (o *options) findPlanes(ctx context.Context) error {
	for _, text := range o.planes {
		p, err := target.ParsePlane(text)
		if err != nil {
			return fmt.Errorf("--plane: %w", err)
		}
		o.Planes = append(o.Planes, p)
	}
	if o.istiod {
		binary, err := program.BuildIstio(ctx, "istiod", func() {
			fmt.Fprintln(os.Stderr, "building istiod: once, up to 5 minutes")
		})
		if err != nil {
			return err
		}
		o.Planes = append(o.Planes, target.Plane{Kind: target.Istiod, Binary: binary})
	}
	if len(o.Planes) == 0 {
		return errors.New("--plane: there is no control plane to measure")
	}
	return nil
}

// runIn calls run with a directory, which is removed afterwards unless a flag names it.
func (o *options) runIn(ctx context.Context, run func(context.Context) error) error {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "dataplanebench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	return run(ctx)
}
