package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// AddRetiredFlags adds hidden flags that Istio has removed to a command. If one is set, a warning
// that names its successor is written when the command runs. An alias sets the flag of its new
// name, which must exist. The caller applies the values of flags with a Field; flags with neither
// have no effect.
func AddRetiredFlags(c *cobra.Command, list []retired.Flag, warnings io.Writer) {
	fs := c.Flags()
	for _, f := range list {
		addRetiredFlag(fs, f)
	}
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, f := range list {
			if c.Flags().Changed(f.Name) {
				fmt.Fprintf(warnings, "warning: flag --%s %s: %s\n", f.Name, retiredEffect(f), f.Successor)
			}
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

// addRetiredFlag adds one hidden flag to the set. An alias sets the flag of its new name, which
// must be in the set. Any other flag sets nothing else, and has the type of f, by default a string.
func addRetiredFlag(fs *pflag.FlagSet, f retired.Flag) {
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
	_ = fs.MarkHidden(f.Name) // fails only for unknown flags
}

// retiredEffect returns the effect of a retired flag, for the warning: a flag with a Field or Alias
// is only deprecated. Any other is retired and has no effect.
func retiredEffect(f retired.Flag) string {
	if f.Field != "" || f.Alias != "" {
		return "is deprecated"
	}
	return "is retired and has no effect"
}
