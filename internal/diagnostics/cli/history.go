package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// historyCommand returns the command that shows the versions of an object. The object must be named
// as KIND/NAME; output other than a table has all versions in full.
func (a *pageClient) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history KIND/NAME",
		Short: "Show the versions of an object since the control plane started, with the fields that differ",
		Long: `history shows the versions of an object that a replica has used since it started, newest first, each with the fields in which it
differs from the one before. Objects that have not changed since then have no history. A replica remembers a limited number and
size of versions (MESHPILOT_OBJECT_HISTORY_VERSIONS, MESHPILOT_OBJECT_HISTORY_BYTES), and none of Secrets and of objects that it
only converts, such as Services. --output yaml has all versions in full.`,
		Example: "  pilotctl history virtualservice/reviews -n shop\n  pilotctl history virtualservice/reviews -n shop -o yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := parseObject(args[0], a.namespace)
			if err != nil {
				return err
			}
			path := "/objects/" + url.PathEscape(string(k.Kind)) + "/" + url.PathEscape(k.Name) + "/history"
			x, err := readFirst[readapi.ObjectHistory](a, c, path, url.Values{"namespace": {k.Namespace}})
			if err != nil {
				return err
			}
			if !a.isTable() {
				return a.printAnswer(c, answer{whole: x, rows: [][]string{{k.String()}}})
			}
			return writeHistory(c.OutOrStdout(), x)
		},
	}
}

// writeHistory writes a title and the differing fields of each version, in the order of x. A
// history without versions, and one whose older versions were evicted, has a line about that.
func writeHistory(w io.Writer, x readapi.ObjectHistory) error {
	if len(x.Versions) == 0 {
		_, err := fmt.Fprintln(w, "no change since the control plane started")
		return err
	}
	for i, v := range x.Versions {
		created := i == len(x.Versions)-1 || x.Versions[i+1].Deleted
		if _, err := fmt.Fprintln(w, versionTitle(v, created)); err != nil {
			return err
		}
		for _, e := range v.Edits {
			fmt.Fprintf(w, "  %s: %s -> %s\n", e.Field, cmp.Or(e.Before, "(none)"), cmp.Or(e.After, "(none)"))
		}
	}
	if x.Evicted {
		fmt.Fprintln(w, "older versions are no longer recorded")
	}
	return nil
}

// versionTitle returns the time of a version and what happened then. created is set if there was no
// version before. A version without a time is the first recorded one.
func versionTitle(v readapi.ObjectVersion, created bool) string {
	at, what := "before", "first recorded version"
	if v.Time != nil {
		at = v.Time.UTC().Format(time.RFC3339)
		switch {
		case v.Deleted:
			what = "deleted"
		case created:
			what = "created"
		case len(v.Edits) == 1:
			what = "changed in 1 field"
		default:
			what = fmt.Sprintf("changed in %d fields", len(v.Edits))
		}
	}
	if v.Generation > 0 {
		what += fmt.Sprintf(", generation %d", v.Generation)
	}
	if v.Origin != "" {
		what += ", " + v.Origin
	}
	return at + "  " + what
}
