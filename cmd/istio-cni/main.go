// istio-cni is the CNI plugin that captures the traffic of pods for their sidecars, and its
// installer.
//
// If a container runtime calls it with CNI_COMMAND set, it is the plugin. Otherwise it is a command
// line: istio-cni install, which is also the default under the name install-cni.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

// installerName is the name of Istio's program that corresponds to `istio-cni install`.
const installerName = "install-cni"

// cniTitle is the title of the program in generated documentation.
const cniTitle = "meshpilot CNI Plugin"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

// run runs the plugin if a container runtime has set CNI_COMMAND, and otherwise the command line.
// It returns the exit code: 0, or 1 after an error, which is printed.
func run(ctx context.Context) int {
	if os.Getenv("CNI_COMMAND") != "" {
		return runPlugin(ctx)
	}
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

// newRoot returns the command line: the command install under the name install-cni, and otherwise
// istio-cni with its subcommands.
func newRoot() *cobra.Command {
	if filepath.Base(os.Args[0]) == installerName {
		install := newInstallCommand(os.LookupEnv, os.Executable)
		install.Use = installerName
		install.AddCommand(command.Version())
		command.AddCollateral(install, cniTitle)
		return install
	}
	root := &cobra.Command{
		Use: "istio-cni", Short: "CNI plugin that captures the traffic of pods for their sidecars",
		Long:         "istio-cni is called by container runtimes, with CNI_COMMAND set and a configuration as input.",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
	}
	root.AddCommand(newInstallCommand(os.LookupEnv, os.Executable), command.Version())
	command.AddCollateral(root, cniTitle)
	return root
}
