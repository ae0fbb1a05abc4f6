// meshcluster brings a Kubernetes cluster up on this machine, without a container engine, and takes
// it down again:
//
//	go run ./test/support/cluster/cmd/meshcluster up --mesh
//	go run ./test/support/cluster/cmd/meshcluster kubectl get pods -A
//	go run ./test/support/cluster/cmd/meshcluster down
//
// Packages test/support/cluster and kubelet have the details.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "meshcluster:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:           "meshcluster",
		Short:         "A Kubernetes cluster of this machine's processes",
		SilenceErrors: true,
		SilenceUsage:  true,
		// Flags before a command are of this program also where those after it are of another.
		TraverseChildren: true,
	}
	cmd.PersistentFlags().StringVar(&name, "name", "meshpilot", "name of the cluster, of which there may be several")
	cmd.AddCommand(
		buildCommand(),
		programCommand(),
		upCommand(&name),
		serveCommand(&name),
		downCommand(&name),
		installCommand(&name),
		statusCommand(&name),
		kubectlCommand(&name),
		execCommand(&name),
	)
	return cmd
}
