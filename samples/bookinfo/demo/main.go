// Command demo tells what a mesh does, on one machine and by measured requests: it brings up a control plane and
// Bookinfo with sidecars, each in a network namespace of its own, plays the scenes of its story, and ends with status
// 0 if all was as expected.
//
//	demo --bin bin --envoy PATH          play, then clean up
//	demo --bin bin --envoy PATH --keep   play, then stay until Ctrl-C or "demo stop"
//	demo … --consul PATH                 play the story of services that are registered in Consul
//	demo exec POD -- COMMAND...          run a command in a pod of a demo that stays
//	demo console                         serve the web console of a demo that stays at http://localhost:8080/ui/
//	demo stop                            end it from another terminal
//
// Start reading at story.go and story_consul.go (the scenes in order) and run.go (what happens around them).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

func main() {
	err := command().ExecuteContext(context.Background())
	var status exitStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// exitStatus is an end that has been explained already.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// options are what the command line says.
type options struct {
	binaries, envoy string
	consul          string // empty: services are Kubernetes objects in files
	dir             string // empty: a new temporary one
	keep            bool
	// remove removes dir after a demo that succeeded.
	remove bool
	// console is the address of the web console, "" if there is none.
	console string
}

func command() *cobra.Command {
	var opts options
	root := &cobra.Command{
		Use:           "demo",
		Short:         "Show a mesh at work on this machine",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			var code int
			var err error
			if netns.Outside() {
				code, err = runWithConsole(opts)
			} else {
				code, err = netns.Run(func() int { return run(opts) })
			}
			if err != nil {
				return err
			}
			return statusError(code)
		},
	}
	f := root.Flags()
	f.StringVar(&opts.binaries, "bin", "bin", "directory of pilot-discovery, pilot-agent, istio-iptables and bookinfo")
	f.StringVar(&opts.envoy, "envoy", os.Getenv("ENVOY"), "path of an Envoy (default $ENVOY)")
	f.StringVar(&opts.consul, "consul", "", "path of a Consul program: register the services there, and play the story of services in Consul")
	f.StringVar(&opts.dir, flagDir, "", "directory for logs and configuration (default a new temporary one)")
	f.BoolVar(&opts.keep, "keep", wanted(os.Getenv("KEEP")), "leave the mesh running after the story (default $KEEP)")
	f.BoolVar(&opts.remove, flagRemove, false, "remove the directory if the demo succeeds")
	f.StringVar(&opts.console, flagConsole, "", "address of the web console, which the outer process serves")
	for _, name := range []string{flagRemove, flagConsole} { // of the processes in the sandbox
		if err := f.MarkHidden(name); err != nil {
			panic(err) // the flag does not exist
		}
	}
	root.AddCommand(execCommand(), consoleCommand(), stopCommand())
	return root
}

func execCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "exec POD -- COMMAND...",
		Short: "Run a command in a pod of a demo that was kept running",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := runningDemo(dir)
			if err != nil {
				return err
			}
			command := args[1:]
			if command[0] == "--" { // kept, since flags end with the pod
				command = command[1:]
			}
			code, err := execInPod(c.Context(), dir, args[0], command)
			if err != nil {
				return err
			}
			return statusError(code)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the demo (default: of the one that runs)")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func stopCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End a demo that was kept running",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := runningDemo(dir)
			if err != nil {
				return err
			}
			return control.Client{Dir: dir}.Stop(c.Context(), control.Request{Action: actionStop})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the demo (default: of the one that runs)")
	return cmd
}

func statusError(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}

// wanted reads KEEP as make passes it on.
func wanted(v string) bool { return v != "" && v != "0" && v != "false" }

// dirPattern names the temporary directories of demos.
const dirPattern = "meshpilot-demo-*"

// runningDemo finds the directory of the one demo that runs, unless told which.
func runningDemo(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	sockets, err := filepath.Glob(filepath.Join(os.TempDir(), dirPattern, control.SocketName))
	if err != nil {
		return "", err
	}
	var running []string
	for _, socket := range sockets {
		if (control.Client{Dir: filepath.Dir(socket)}).IsRunning() {
			running = append(running, filepath.Dir(socket))
		}
	}
	if len(running) != 1 {
		return "", fmt.Errorf("%d demos are running, name one by --dir: %q", len(running), running)
	}
	return running[0], nil
}
