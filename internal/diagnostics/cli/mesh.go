//go:build linux

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh"
)

// meshCommand returns the commands that run a mesh on this machine.
func (a *pageClient) meshCommand() *cobra.Command {
	return groupCommand(
		&cobra.Command{Use: "mesh", Short: "Run a mesh on this machine, without Kubernetes"},
		a.meshUp(), a.meshDown(), a.meshStatus(), a.meshExec(), a.meshForward(), meshSupervise(),
	)
}

// addMeshDir adds the flag --dir to a command.
func (a *pageClient) addMeshDir(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "dir", "",
		"directory of the mesh's state (default: meshpilot-mesh in XDG_RUNTIME_DIR, or of the user in /tmp)")
}

// meshDir returns the directory of the mesh's state. dir is the flag --dir. By default it is in
// XDG_RUNTIME_DIR.
func (a *pageClient) meshDir(dir string) (string, error) {
	if dir == "" {
		dir = localmesh.DefaultDir(a.environment.variable("XDG_RUNTIME_DIR"))
	}
	return filepath.Abs(dir)
}

// listenLocally listens at a port of this machine, on loopback only. A port that is in use is an
// error that names --port; 0 selects a free one.
func listenLocally(port int) (*net.TCPListener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of this machine is in use; --port selects another one, and 0 a free one", port)
	case err != nil:
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("port %d is not a TCP port", port)
	}
	return tcp, nil
}

// meshDown returns the command that ends the mesh of --dir and removes its files. It prints whether
// there was a mesh; without one it is no error.
func (a *pageClient) meshDown() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "down", Args: cobra.NoArgs, Short: "End the mesh of this machine, and remove its files",
		Long: "down ends the programs, sidecars and the control plane of the mesh, and removes its files. It also removes the files of a mesh\n" +
			"whose processes were killed.",
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := a.meshDir(dir)
			if err != nil {
				return err
			}
			found, err := localmesh.Down(c.Context(), dir)
			if err != nil {
				return err
			}
			message := "The mesh has ended."
			if !found {
				message = "There is no mesh."
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), message)
			return err
		},
	}
	a.addMeshDir(c, &dir)
	return c
}

// meshStatus returns the command that shows the workloads of the mesh in --dir. Problems of the
// mesh's files are written to the error output and are no failure.
func (a *pageClient) meshStatus() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "status", Args: cobra.NoArgs, Short: "Show the workloads of the mesh of this machine",
		Long: "status shows the workloads of the mesh with their addresses in it, ports and states. Problems are mistakes in Deployments and\n" +
			"Services; pilotctl problems shows those in other objects.",
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := a.meshDir(dir)
			if err != nil {
				return err
			}
			status, err := localmesh.ReadStatus(c.Context(), dir)
			if err != nil {
				return err
			}
			x := answer{
				whole: status, header: "NAME\tNAMESPACE\tADDRESS\tPORTS\tSTATE\tRESTARTS\tREASON\tLOGS", wide: 1,
				none: "no workloads",
			}
			for _, w := range status.Workloads {
				ports := strings.Trim(strings.ReplaceAll(fmt.Sprint(w.Ports), " ", ","), "[]")
				x.rows = append(x.rows, []string{
					w.Name, w.Namespace, cmp.Or(w.Address, "-"), cmp.Or(ports, "-"), w.State, strconv.Itoa(w.Restarts),
					cmp.Or(w.Reason, "-"), w.Logs,
				})
			}
			for _, p := range status.Problems {
				_, _ = fmt.Fprintln(c.ErrOrStderr(), "problem:", p) // a failed message is ignored
			}
			return a.printAnswer(c, x)
		},
	}
	a.addMeshDir(c, &dir)
	return c
}

// meshExec returns the command that runs a command of this machine in the network of a workload. It
// forwards signals, and its exit code is the exit code of the command. A missing mesh, workload or
// program is a *StatusError too.
func (a *pageClient) meshExec() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "exec WORKLOAD -- COMMAND...", Args: cobra.MinimumNArgs(2),
		Short: "Run a command in the network of a workload of the mesh",
		Long: "exec runs a command of this machine in the network of a workload: its requests pass the workload's sidecar. WORKLOAD is\n" +
			"NAME or NAME.NAMESPACE, or istiod for the control plane. Signals are forwarded, and the exit code is that of the command.",
		Example: "  pilotctl mesh exec client -- curl -s http://reviews:9080/reviews/0\n  pilotctl mesh exec client.shop -- curl -s localhost:15000/config_dump",
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.meshDir(dir)
			if err != nil {
				return runFailed(err)
			}
			command, err := localCommand(args[1:])
			if err != nil {
				return err
			}
			return withSignals(func(signals <-chan os.Signal) (int, error) {
				return localmesh.Exec(contextOf(c), dir, args[0], command, signals)
			})
		},
	}
	a.addMeshDir(c, &dir)
	return c
}

// meshForward returns the command that forwards a port of this machine, on loopback, to a port of a
// workload. It prints the URL and blocks until it is interrupted or the mesh ends. A malformed
// port, and a local port in use, are errors; local port 0 selects a free one. Without a local port
// both are the same.
func (a *pageClient) meshForward() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "forward WORKLOAD [LOCAL-PORT:]PORT", Args: cobra.ExactArgs(2),
		Short: "Forward a port of this machine to a workload of the mesh, until it is interrupted",
		Long: "forward accepts connections at a port of this machine, on loopback only, and forwards them to a port of a workload: for a browser\n" +
			"outside of the mesh. The connections do not pass the workload's sidecar.",
		Example: "  pilotctl mesh forward productpage 9080\n  pilotctl mesh forward productpage.shop 8000:9080",
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.meshDir(dir)
			if err != nil {
				return err
			}
			local, port, both := strings.Cut(args[1], ":")
			if !both {
				port = local
			}
			number, err := strconv.ParseUint(local, 10, 16)
			if err != nil {
				return fmt.Errorf("%q: want PORT or LOCAL-PORT:PORT", args[1])
			}
			if remote, err := strconv.ParseUint(port, 10, 16); err != nil || remote == 0 {
				return fmt.Errorf("%q: want PORT or LOCAL-PORT:PORT", args[1])
			}
			l, err := listenLocally(int(number))
			if err != nil {
				return err
			}
			defer l.Close()
			if _, err := fmt.Fprintf(c.OutOrStdout(), "http://%s\n", l.Addr()); err != nil {
				return err
			}
			return localmesh.Forward(c.Context(), dir, args[0], port, l)
		},
	}
	a.addMeshDir(c, &dir)
	return c
}

// localCommand returns a command with the absolute path of its program. The error is a *StatusError
// with exitNotFound if there is no such program.
func localCommand(args []string) ([]string, error) {
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, &StatusError{Code: exitNotFound, err: err}
	}
	return append([]string{path}, args[1:]...), nil
}

// withSignals calls run with a channel of the signals to forward to a program, such as SIGTERM,
// which do not end this process until run returns. It returns a *StatusError if the exit status of
// run is not 0, and a *StatusError with exitRunFailed for an error of run.
func withSignals(run func(<-chan os.Signal) (int, error)) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGWINCH)
	defer signal.Stop(signals)
	code, err := run(signals)
	switch {
	case err != nil:
		return runFailed(err)
	case code != 0:
		return &StatusError{Code: code}
	}
	return nil
}
