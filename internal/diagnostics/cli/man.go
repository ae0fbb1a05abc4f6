package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand returns the hidden command that writes a man page for each command, for make install.
// It creates the directory if needed.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Args: cobra.ExactArgs(1), Hidden: true, Short: "Write the man pages of all commands",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are for all users
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the same pages on every day
			return doc.GenManTree(root, &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1",
				Source: "meshpilot", Manual: "meshpilot"}, args[0])
		},
	}
}
