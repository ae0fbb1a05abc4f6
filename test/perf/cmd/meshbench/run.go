package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

// flags are what run and pair have in common.
type flags struct {
	sizes    []string
	groups   string
	protocol string
	options  scenario.Options
}

func (f *flags) addFlags(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringSliceVar(
		&f.sizes,
		"size",
		[]string{"small", "medium"},
		"sizes to run: "+strings.Join(scenario.Sizes(), ", "),
	)
	fs.StringVar(&f.groups, "group", "", "run only groups whose name (size/kind) matches this regular expression")
	fs.StringSliceVar(&o.Only, "scenario", nil, "run only these scenarios, after connect")
	fs.StringVar(&f.protocol, "protocol", "delta", "xDS protocol of the proxies: delta or sotw")
	fs.BoolVar(&o.TLS, "tls", false, "proxies use TLS, with certificates of their own")
	fs.StringVar(
		&o.Source,
		"source",
		scenario.FileSource,
		"how config gets to the control plane: file, xds or xds-delta",
	)
	fs.BoolVar(&o.FilePerObject, "file-per-object", true, "write each config object to a file of its own")
	fs.IntVar(&o.Proxies, "proxies", 0, "number of proxies, in place of the sizes' own")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the meshes (default 1)")
	fs.IntVar(&o.Repeat, "repeat", 5, "single changes of each kind")
	fs.DurationVar(&o.Settle, "settle", 300*time.Millisecond, "quiet time that ends a measurement")
	fs.DurationVar(&o.Patience, "patience", 2*time.Minute, "limit of each wait")
	fs.IntVar(
		&o.BasePort,
		"base-port",
		0,
		"first of five ports for xDS, xDS over TLS, HTTP, monitoring and config, and of five more for each further control plane (default free ones)",
	)
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of an API server for istiod (default an imitated one, without objects)")
	fs.StringArrayVar(&o.Environment, "env", nil, "environment variable for the control plane, NAME=VALUE")
	fs.StringVar(&o.Dir, "dir", "", "directory for meshes and logs (default a new temporary one, removed afterwards)")
}

// groupsWanted are the groups to run, in order.
func (f *flags) groupsWanted() ([]scenario.Group, error) {
	match, err := regexp.Compile(f.groups)
	if err != nil {
		return nil, fmt.Errorf("--group: %w", err)
	}
	var list []scenario.Group
	for _, size := range f.sizes {
		groups, err := scenario.Groups(size)
		if err != nil {
			return nil, fmt.Errorf("--size: %w", err)
		}
		for _, g := range groups {
			if match.MatchString(g.Name) {
				list = append(list, g)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--group %q: no such group", f.groups)
	}
	return list, nil
}

// completeOptions completes the options, and starts an API server without objects if no kubeconfig is
// given: istiod does not start without one. done ends it and removes the created files.
func (f *flags) completeOptions() (done func(), err error) {
	o := &f.options
	switch f.protocol {
	case "delta", "sotw":
		o.Delta = f.protocol == "delta"
	default:
		return nil, fmt.Errorf("--protocol %q: want delta or sotw", f.protocol)
	}
	o.Progress = os.Stderr
	remove := func() {}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "meshbench-"); err != nil {
			return nil, err
		}
		remove = func() { os.RemoveAll(o.Dir) }
	} else if err = os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if o.Kubeconfig != "" {
		return remove, nil
	}
	o.Kubeconfig = filepath.Join(o.Dir, "empty-api.kubeconfig")
	api, err := target.StartEmptyAPI(o.Kubeconfig)
	if err != nil {
		remove()
		return nil, err
	}
	return func() { _ = api.Close(); remove() }, nil
}

func runCommand() *cobra.Command {
	var f flags
	var plane, out string
	c := &cobra.Command{
		Use: "run", Short: "Measure one control plane", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := target.ParsePlane(plane)
			if err != nil {
				return fmt.Errorf("--plane: %w", err)
			}
			groups, err := f.groupsWanted()
			if err != nil {
				return err
			}
			done, err := f.completeOptions()
			if err != nil {
				return err
			}
			defer done()
			results := new(report.File)
			err = f.measureGroups(c.Context(), p, groups, results)
			results.PrintTable(c.OutOrStdout())
			if out != "" {
				if err := results.Write(out); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			if list := results.Failures(); len(list) > 0 {
				return failures(list)
			}
			return nil
		},
	}
	f.addFlags(c.Flags())
	c.Flags().
		StringVar(&plane, "plane", filepath.Join("bin", "pilot-discovery"), "control plane: BINARY, meshpilot=BINARY, istiod=BINARY or replay=BINARY")
	c.Flags().StringVar(&out, "json", "", "file for the results")
	return c
}

// measureGroups runs the groups and appends their results.
func (f *flags) measureGroups(
	ctx context.Context,
	p target.Plane,
	groups []scenario.Group,
	results *report.File,
) error {
	o := f.options
	o.Plane = p
	if err := o.Validate(); err != nil {
		return err
	}
	for _, g := range groups {
		r, err := scenario.Run(ctx, o, g)
		if r != nil {
			results.Runs = append(results.Runs, *r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
