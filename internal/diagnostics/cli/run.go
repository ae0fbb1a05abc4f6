//go:build linux

package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh"
)

// runProgramCommand returns the command that runs a program as a workload of the mesh of this
// machine. The workload exists while the program runs.
func (a *pageClient) runProgramCommand() *cobra.Command {
	var dir string
	var o localmesh.RunOptions
	c := &cobra.Command{
		Use: "run [flags] -- PROGRAM [ARGUMENT]...", Args: cobra.MinimumNArgs(1),
		Short: "Run a program of this machine as a workload of the mesh",
		Long: `run runs a program in the foreground as a workload of the mesh that mesh up has started: in a network namespace with a sidecar, which
captures its traffic and answers its DNS requests. Standard input, output and error, the environment and the working directory are those of
this command; signals are forwarded, and the exit code is that of the program. The workload is removed when the program ends.

With --service the program is called as that service, when it accepts connections at the port. A Service with this name in the files of the
mesh must have the port; the workload has the labels of its selector. Without such a Service, one is added while the program runs.
--namespace is the namespace of the workload (default: default).

The exit code is 125 if the program could not be run in the mesh, and 127 if there is no such program.`,
		Example: `  pilotctl run --service reviews:9080 -n shop -- ./reviews --port 9080
  pilotctl run --service reviews:9080 -n shop --label version=v3 -- go run ./cmd/reviews
  pilotctl run -- curl -s http://reviews.shop:9080/`,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.meshDir(dir)
			if err != nil {
				return runFailed(err)
			}
			command, err := localCommand(args)
			if err != nil {
				return err
			}
			if o.Namespace = a.namespace; o.Namespace == "" {
				o.Namespace = "default"
			}
			return withSignals(func(signals <-chan os.Signal) (int, error) {
				return localmesh.RunProgram(contextOf(c), dir, o, command, signals)
			})
		},
	}
	fs := c.Flags()
	a.addMeshDir(c, &dir)
	fs.StringVar(&o.Service, "service", "", "SERVICE:PORT that the program serves")
	fs.StringVar(&o.Name, "name", "", "name of the workload (default: derived from the service or the program)")
	fs.StringVarP(&o.ServiceAccount, "service-account", "s", "default", "service account of the workload")
	fs.StringToStringVarP(&o.Labels, "label", "l", nil, "labels of the workload, besides the service's selector")
	return c
}

// contextOf returns the context of a command without the signals that end other commands: run and
// exec forward them.
func contextOf(c *cobra.Command) context.Context { return context.WithoutCancel(c.Context()) }
