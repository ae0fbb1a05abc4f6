package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// problems returns the command that lists the Problems of problemz.
func (a *asker) problems() *cobra.Command {
	return &cobra.Command{
		Use: "problems", Short: "What is wrong with config objects, or not honoured", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			if a.namespace != "" {
				query.Set("namespace", a.namespace)
			}
			var list []debug.Problem
			if err := a.page(c.Context(), "problemz", query, &list); err != nil {
				return err
			}
			if a.output != "table" {
				return a.show(c, answer{whole: list})
			}
			for _, p := range list {
				fmt.Fprintln(c.OutOrStdout(), p.String())
			}
			if len(list) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "no problems")
			}
			return nil
		},
	}
}

// nacks returns the command that lists the rejected resources of nackz.
func (a *asker) nacks() *cobra.Command {
	return &cobra.Command{
		Use: "nacks", Short: "What proxies refused, why, since when, and the objects that it came from", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.Nack
			if err := a.page(c.Context(), "nackz", nil, &list); err != nil {
				return err
			}
			var rows [][]string
			for _, n := range list {
				from := make([]string, 0, len(n.From))
				for _, o := range n.From {
					from = append(from, o.String())
				}
				rows = append(rows, []string{
					n.Type, n.Resource, nackState(n), strconv.Itoa(n.Proxies), n.Since.Local().Format(time.DateTime), strings.Join(from, ","), strings.Join(strings.Fields(n.Message), " "),
				})
			}
			return a.show(c, answer{whole: list, header: "TYPE\tRESOURCE\tSTATE\tPROXIES\tSINCE\tFROM\tMESSAGE", rows: rows, none: "nothing was refused"})
		},
	}
}

// nackState returns the state of a rejected resource: QUARANTINED, REFUSED while the rejection is
// in effect, otherwise MENDED.
func nackState(n debug.Nack) string {
	switch {
	case n.Quarantined:
		return "QUARANTINED"
	case n.Standing:
		return "REFUSED"
	default:
		return "MENDED"
	}
}
