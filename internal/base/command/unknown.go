package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TolerateUnknownFlags makes the command and all its sub-commands accept unknown flags in args, the
// program's arguments, with a warning when they run. A manifest of another version must not keep a
// control plane or a proxy from starting. A command that only groups others still rejects them,
// because "--bogus version" would run nothing and succeed.
func TolerateUnknownFlags(root *cobra.Command, args []string, warnings io.Writer) {
	for _, c := range root.Commands() {
		TolerateUnknownFlags(c, args, warnings)
	}
	if !root.Runnable() {
		return
	}
	root.FParseErrWhitelist.UnknownFlags = true
	before := root.PreRunE
	root.PreRunE = func(c *cobra.Command, rest []string) error {
		for _, name := range unknownFlags(c.Flags(), args) {
			fmt.Fprintf(warnings, "warning: unknown flag %s is ignored\n", name)
		}
		if before != nil {
			return before(c, rest)
		}
		return nil
	}
}

// unknownFlags returns the flags in args that the set does not have, without values and in the
// order of args. It stops at "--". Duplicates remain, and of short flags only the first letter is
// looked at. A negative number is the value of a flag.
func unknownFlags(fs *pflag.FlagSet, args []string) []string {
	var names []string
	for _, a := range args {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(a, "=")
		switch {
		case strings.HasPrefix(name, "--") && fs.Lookup(name[2:]) == nil:
			names = append(names, name)
		case isShort(name) && fs.ShorthandLookup(name[1:2]) == nil:
			names = append(names, name[:2])
		}
	}
	return names
}

// isShort reports whether an argument is a short flag such as -n, and no negative number.
func isShort(argument string) bool {
	return len(argument) > 1 && argument[0] == '-' && argument[1] != '-' && (argument[1] < '0' || argument[1] > '9')
}
