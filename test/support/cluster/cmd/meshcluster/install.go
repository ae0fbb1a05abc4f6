package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
)

func installCommand(name *string) *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Build meshpilot, and install or upgrade it and an ingress gateway by their charts",
		Long: "Build meshpilot, and install or upgrade it and an ingress gateway by their charts.\n" +
			"Pods that run go on with what they were started with: delete those that are to run what was built.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			return installMesh(cmd.Context(), p, set)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "a value of the control plane's chart, as NAME=VALUE")
	return cmd
}

func installMesh(ctx context.Context, p place, set []string) error {
	s, err := p.currentState()
	if err != nil {
		return err
	}
	programs, err := cluster.FindPrograms(printProgress)
	if err != nil {
		return err
	}
	// The paths of images are known to the kubelet: they are built again in place.
	if _, err := mesh.BuildImages(ctx); err != nil {
		return err
	}
	for _, chart := range mesh.Charts(set...) {
		printProgress("installing %s", chart.Release)
		if err := mesh.InstallCharts(ctx, programs, s.Kubeconfig, chart); err != nil {
			return err
		}
	}
	return nil
}

func printProgress(format string, args ...any) { fmt.Printf(format+"\n", args...) }
