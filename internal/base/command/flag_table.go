package command

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// WriteFlagTable appends to b a Markdown table of the flags that are not hidden, except --help, in
// the order of flags. The columns are the flag with its shorthand, the default and the meaning. An
// empty default, or an empty list, stays empty.
func WriteFlagTable(b *strings.Builder, flags *pflag.FlagSet) {
	escape := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + escape(f.DefValue) + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, value, escape(f.Usage))
	})
}
