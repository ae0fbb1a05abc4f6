package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// AddRetiredFlags adds flags that Istio has removed to a command. They are hidden. One that
// is set is reported on warnings with its successor when the command runs. An alias sets the flag
// of its new name, which must be there already. The caller reads the values of flags with a Field;
// the others have no effect.
func AddRetiredFlags(c *cobra.Command, list []retired.Flag, warnings io.Writer) {
	fs := c.Flags()
	for _, f := range list {
		addRetired(fs, f)
	}
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, f := range list {
			if c.Flags().Changed(f.Name) {
				fmt.Fprintf(warnings, "warning: flag --%s %s: %s\n", f.Name, effect(f), f.Successor)
			}
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

// addRetired adds one flag to the set.
func addRetired(fs *pflag.FlagSet, f retired.Flag) {
	switch {
	case f.Alias != "":
		fs.AddFlag(&pflag.Flag{Name: f.Name, Usage: f.Successor, Value: fs.Lookup(f.Alias).Value})
	case f.Type == retired.Bool:
		fs.Bool(f.Name, false, f.Successor)
	case f.Type == retired.Duration:
		fs.Duration(f.Name, 0, f.Successor)
	case f.Type == retired.Port:
		fs.Uint16(f.Name, 0, f.Successor)
	default:
		fs.String(f.Name, "", f.Successor)
	}
	_ = fs.MarkHidden(f.Name) // it was just added
}

// effect returns the remaining effect of a retired flag, for the warning.
func effect(f retired.Flag) string {
	if f.Field != "" || f.Alias != "" {
		return "is deprecated"
	}
	return "is retired and has no effect"
}
