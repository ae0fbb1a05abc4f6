package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// changesCommand returns the command that lists the last changes that were pushed, by default 20.
// With an ID it lists only that change, in detail if the output is a table; an unknown ID is an
// error.
func (a *pageClient) changesCommand() *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use:   "changes [ID]",
		Short: "List the last changes that were pushed, with their causes and the proxies that have acknowledged them",
		Long: "changes lists the last changes that replicas have pushed, newest first: what has changed, how many proxies needed it and\n" +
			"have acknowledged or rejected it, and the times from the change until the first and the last of them. A replica remembers the\n" +
			"last 256. Changes that arrive together are pushed together.\n\n" +
			"With an ID, it shows one change in detail: all objects, the resources that differ, and the proxies that are behind or reject it.",
		Example: "  pilotctl changes --watch --watch-interval 500ms\n  pilotctl changes -n shop\n  pilotctl changes istiod-7d9c.42",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id := strings.Join(args, "")
			list, err := a.readChanges(c, id, limit)
			if err != nil {
				return err
			}
			if id != "" && a.isTable() {
				return printChange(c.OutOrStdout(), list[0])
			}
			var rows [][]string
			for _, x := range list {
				rows = append(rows, changeRow(x))
			}
			return a.printAnswer(c, answer{
				whole: list, rows: rows, none: "nothing was pushed",
				header: "ID\tTIME\tCAUSE\tSTATE\tPROXIES\tACKNOWLEDGED\tREJECTED\tPENDING\tFIRST\tLAST\tSLOWEST",
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "number of changes to list")
	return c
}

// readChanges returns the newest changes of all replicas, newest first and at most limit, or the
// one with the ID. With --namespace it asks for changes of that namespace only. It returns an error
// if no replica answers or remembers the ID, or if limit is not in 1 to 1000. Replicas that do not
// answer are warned of.
func (a *pageClient) readChanges(c *cobra.Command, id string, limit int) ([]readapi.PushedChange, error) {
	if limit < 1 || limit > 1000 { //nolint:mnd // the bounds of the read API
		return nil, fmt.Errorf("--limit %d: want 1 to 1000", limit)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if id != "" {
		query.Set("id", id)
	}
	if a.namespace != "" {
		query.Set("namespace", a.namespace)
	}
	answers, err := readAPI[readapi.Changes](a, c, "/changes", query)
	if err != nil {
		return nil, err
	}
	list := []readapi.PushedChange{}
	for _, x := range answers {
		list = append(list, x.Changes...)
		warnUnanswered(c, x.Unanswered)
	}
	if id != "" && len(list) == 0 {
		return nil, errors.New("no replica remembers the change " + id)
	}
	slices.SortStableFunc(list, func(a, b readapi.PushedChange) int { return b.Time.Compare(a.Time) })
	return list[:min(len(list), limit)], nil
}

// changeRow returns a row of the table. Unknown values are "-".
func changeRow(x readapi.PushedChange) []string {
	return []string{
		x.ID, x.Time.UTC().Format(time.RFC3339), changeTitle(x), string(x.State), strconv.Itoa(x.Proxies),
		strconv.Itoa(x.Acknowledged), strconv.Itoa(x.Rejected), strconv.Itoa(x.Pending), millisText(x.FirstMillis),
		millisText(x.LastMillis),
		cmp.Or(x.Slowest, "-"),
	}
}

// changeTitle returns the first cause of a change and the number of the others. x must have a
// cause.
func changeTitle(x readapi.PushedChange) string {
	text := causeText(x.Causes[0])
	if more := len(x.Causes) - 1 + x.MoreCauses; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// causeText returns what has changed: "VirtualService/shop/cart" for an object, "endpoints of
// Service/shop/cart" for a part, or a text for everything. Empty parts of the name are left out.
func causeText(c readapi.ChangeCause) string {
	name := strings.Join(slices.DeleteFunc([]string{c.Kind, c.Namespace, c.Name},
		func(s string) bool { return s == "" }), "/")
	switch c.What {
	case "object":
		return name
	case "everything":
		return "everything (start, mesh settings or forced push)"
	default:
		return c.What + " of " + name
	}
}

// millisText returns a time in milliseconds as a duration, "-" if it is 0. Times above a second are
// rounded to milliseconds, others to a tenth of one.
func millisText(ms float64) string {
	if ms == 0 {
		return "-"
	}
	d := time.Duration(ms * float64(time.Millisecond))
	if d > time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Millisecond / 10).String() //nolint:mnd // a tenth of a millisecond
}

// printChange prints one change in detail. Each cause, resource type, refusal and proxy that is
// behind has a line; only the first of a list has a title.
func printChange(out io.Writer, x readapi.PushedChange) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) //nolint:mnd // as kubectl
	fmt.Fprintf(w, "Change:\t%s, snapshot %d\nTime:\t%s\nState:\t%s\n", x.ID, x.Snapshot,
		x.Time.UTC().Format(time.RFC3339Nano), x.State)
	for i, c := range x.Causes {
		fmt.Fprintf(w, "%s\t%s\n", heading("Cause:", i), causeText(c))
	}
	if x.MoreCauses > 0 {
		fmt.Fprintf(w, "\tand %d more\n", x.MoreCauses)
	}
	for i, short := range slices.Sorted(maps.Keys(x.Resources)) {
		fmt.Fprintf(w, "%s\t%d %s\n", heading("Resources:", i), x.Resources[short], short)
	}
	fmt.Fprintf(w, "Proxies:\t%d in %d groups: %d acknowledged, %d rejected, %d disconnected, %d pending\n",
		x.Proxies, x.Classes, x.Acknowledged, x.Rejected, x.Disconnected, x.Pending)
	fmt.Fprintf(w, "Generated:\tafter %s\n", millisText(x.GeneratedMillis))
	fmt.Fprintf(w, "Acknowledged:\tfirst after %s, last after %s (%s)\n", millisText(x.FirstMillis),
		millisText(x.LastMillis), cmp.Or(x.Slowest, "-"))
	for i, r := range x.Refusals {
		fmt.Fprintf(w, "%s\t%s %s: %s (%s)\n", heading("Rejected:", i), r.Type, r.Resource, r.Message,
			strings.Join(r.Proxies, ", "))
	}
	for i, b := range x.Behind {
		fmt.Fprintf(w, "%s\t%s: %s\n", heading("Behind:", i), b.Proxy, b.Reason)
	}
	return w.Flush()
}

// heading returns the title for the first line of a list, and "" for the others.
func heading(title string, i int) string {
	if i > 0 {
		return ""
	}
	return title
}
