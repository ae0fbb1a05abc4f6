package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

func programCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "program NAME",
		Short: "Print the path of one of the programs, such as helm; it is built if it is not there",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			programs, err := cluster.FindPrograms(func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) // the path alone goes to stdout
			})
			if err != nil {
				return err
			}
			path, err := programs.Path(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
}
