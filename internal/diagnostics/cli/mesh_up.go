//go:build linux

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh"
)

// defaultMeshPort is the port of this machine at which mesh up serves the control plane. pilotctl
// asks it if no flag names another one.
const defaultMeshPort = 8080

// meshUpFlags are the flags of mesh up.
type meshUpFlags struct {
	dir, binDir, envoy, meshConfig string
	files                          []string
	port                           int
}

// meshUp returns the command that starts a mesh of the workloads in the files of --file
// (runMeshUp). The control plane is served at --port, by default defaultMeshPort.
func (a *pageClient) meshUp() *cobra.Command {
	var f meshUpFlags
	c := &cobra.Command{
		Use: "up -f FILE|DIRECTORY...", Args: cobra.NoArgs,
		Short: "Start a mesh of the workloads in files, and wait until they are ready",
		Long: `up starts a control plane and the workloads of the given files on this machine, each in a network namespace with an Envoy that
captures its traffic, and waits until they are ready. The mesh stays in the background until mesh down.

Each Deployment is a workload: the command of its containers is a program of this machine, with a path relative to workingDir, which is
relative to the file (default: its directory). Images are not run. Services, ServiceEntries and Istio's kinds have their usual meaning;
changes of the files are followed. docs/LAPTOP.md has an example.

It needs Linux, and root or a system that allows user namespaces. Envoy is fetched on the first use, unless --envoy or ENVOY names one.
The control plane is served at --port of this machine, where all other commands of pilotctl find it by default.`,
		Example: "  pilotctl mesh up -f my-mesh/\n  pilotctl mesh up -f services.yaml -f rules/ --port 0 --envoy /usr/bin/envoy",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runMeshUp(c, f) },
	}
	fs := c.Flags()
	a.addMeshDir(c, &f.dir)
	fs.StringArrayVarP(&f.files, "file", "f", nil, "file or directory with objects; can be repeated")
	fs.StringVar(&f.binDir, "bin", "",
		"directory of pilot-discovery, pilot-agent and istio-iptables (default: beside pilotctl, or in PATH)")
	fs.StringVar(&f.envoy, "envoy", "", "path of an Envoy (default: ENVOY, or the one in the user's cache)")
	fs.StringVar(&f.meshConfig, "mesh-config", "",
		"file with the mesh configuration (default: access logs in the logs of the agents)")
	fs.IntVar(&f.port, "port", defaultMeshPort,
		"port of this machine at which the control plane is served; 0 selects a free one")
	return c
}

// runMeshUp starts a mesh in a process of its own and prints how many workloads are ready, its
// console and its logs. It needs --file, and fails if a file is missing, a program is not found or
// the port is in use. It also returns an error if a workload is not ready or an object has a
// problem; the mesh runs nevertheless.
func (a *pageClient) runMeshUp(c *cobra.Command, f meshUpFlags) error {
	if len(f.files) == 0 {
		return errors.New("no objects are named: set --file")
	}
	o := localmesh.Options{}
	var err error
	if o.Dir, err = a.meshDir(f.dir); err != nil {
		return err
	}
	for _, file := range f.files {
		path, err := existingPath("file", file)
		if err != nil {
			return err
		}
		o.Manifests = append(o.Manifests, path)
	}
	if f.meshConfig != "" {
		if o.MeshConfig, err = existingPath("mesh-config", f.meshConfig); err != nil {
			return err
		}
	}
	progress := func(line string) { _, _ = fmt.Fprintln(c.ErrOrStderr(), line) } // a failed message is ignored
	envoy := f.envoy
	if envoy == "" {
		envoy = a.environment.variable("ENVOY")
	}
	if o.Programs, err = localmesh.FindPrograms(c.Context(), f.binDir, envoy, progress); err != nil {
		return err
	}
	listener, err := listenLocally(f.port)
	if err != nil {
		return err
	}
	defer listener.Close()
	command, err := superviseCommand(o)
	if err != nil {
		return err
	}
	status, err := localmesh.Up(c.Context(), o, command, listener, progress)
	if err != nil {
		return err
	}
	return a.printMeshUp(c, status)
}

// existingPath returns the absolute path of a file or directory that a flag names, or an error if
// there is none.
func existingPath(flag, name string) (string, error) {
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return path, nil
}

// printMeshUp prints how many workloads of a started mesh are ready, its console and its logs.
// Problems are printed to standard error. It returns an error if a workload is not ready, there are
// problems, or printing fails.
func (a *pageClient) printMeshUp(c *cobra.Command, status localmesh.Status) error {
	failed := 0
	for _, w := range status.Workloads {
		if w.State != localmesh.StateReady {
			failed++
		}
	}
	for _, p := range status.Problems {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "problem:", p) // a failed message is ignored
	}
	_, err := fmt.Fprintf(c.OutOrStdout(),
		"The mesh runs: %d of %d workloads are ready.\nconsole: http://%s/ui/\nlogs: %s\n",
		len(status.Workloads)-failed, len(status.Workloads), status.Console, filepath.Join(status.Dir, "nodes"))
	switch {
	case err != nil:
		return err
	case failed > 0 || len(status.Problems) > 0:
		return fmt.Errorf("%d workloads are not ready, and %d objects have problems; pilotctl mesh status shows them",
			failed, len(status.Problems))
	}
	return nil
}

// superviseCommand returns the command line of the process that runs a mesh: this executable, with
// the hidden command mesh supervise and the options as JSON.
func superviseCommand(o localmesh.Options) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	return []string{self, "mesh", "supervise", string(text)}, err
}

// meshSupervise returns the hidden command that runs a mesh until mesh down. OPTIONS are
// localmesh.Options as JSON.
func meshSupervise() *cobra.Command {
	return &cobra.Command{
		Use: "supervise OPTIONS", Args: cobra.ExactArgs(1), Hidden: true, Short: "Run a mesh in this process",
		RunE: func(_ *cobra.Command, args []string) error {
			var o localmesh.Options
			if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
				return fmt.Errorf("reading the options of a mesh: %w", err)
			}
			return localmesh.Supervise(o)
		},
	}
}
