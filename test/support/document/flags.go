package document

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

// CompareFlags compares the document at a path with the flags of a program's commands: an
// introduction, and a section with a table for each command that has flags. If update is set, it
// writes the document.
func CompareFlags(t testing.TB, path, introduction string, root *cobra.Command, update bool) {
	t.Helper()
	var b strings.Builder
	b.WriteString(introduction)
	writeFlagSections(&b, root)
	want := b.String()
	if update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, ReadContent(t, path)); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update rewrites it):\n%s", path, diff)
	}
}

// writeFlagSections writes the sections of a command and of those below it, by name. Hidden commands
// are left out.
func writeFlagSections(b *strings.Builder, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	flags := c.LocalFlags()
	if count := strings.Count(flags.FlagUsages(), "\n"); count > 1 {
		fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
		if c.Short != "" {
			fmt.Fprintf(b, "%s.\n\n", c.Short)
		}
		command.WriteFlagTable(b, flags)
	}
	list := slices.Clone(c.Commands())
	slices.SortFunc(list, func(x, y *cobra.Command) int { return strings.Compare(x.Name(), y.Name()) })
	for _, sub := range list {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			writeFlagSections(b, sub)
		}
	}
}
