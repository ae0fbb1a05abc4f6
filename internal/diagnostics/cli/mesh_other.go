//go:build !linux

package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

// meshCommand returns a hidden command that fails: a mesh on one machine takes network namespaces.
func (a *pageClient) meshCommand() *cobra.Command { return linuxCommand("mesh") }

// runProgramCommand returns a hidden command that fails, see meshCommand.
func (a *pageClient) runProgramCommand() *cobra.Command { return linuxCommand("run") }

// linuxCommand returns a hidden command that fails, because it needs Linux.
func linuxCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return errors.New("pilotctl " + name + " needs Linux") },
	}
}
