package main

import (
	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the programs of clusters that are not there yet, so that no test has to",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := cluster.FindPrograms(printProgress)
			if err != nil {
				return err
			}
			if _, err := programs.Kubectl(cmd.Context()); err != nil {
				return err
			}
			for _, name := range programs.Names() {
				if name == "kubectl" {
					continue // built above, if it is missing
				}
				if _, err := programs.Path(cmd.Context(), name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
