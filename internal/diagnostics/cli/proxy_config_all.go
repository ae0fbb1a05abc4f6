package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// allConfig returns the command that shows all tables of a proxy, each below its title, also the
// empty ones. JSON and YAML have all of them in one object; name output has the names of all,
// without titles.
func (a *pageClient) allConfig() *cobra.Command {
	var s selection
	c := &cobra.Command{
		Use: "all [NAME[.NAMESPACE]]", Aliases: []string{"a"}, Args: cobra.MaximumNArgs(1),
		Short: "Show all that a proxy was sent",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.readDump(c, args, s)
			if err != nil {
				return err
			}
			s.now = time.Now()
			whole, rows := map[string]any{}, [][]string{}
			for _, part := range []struct {
				name  string
				table func(d *dump, s selection) answer
			}{
				{"clusters", clusterTable},
				{"listeners", listenerTable},
				{"routes", routeTable},
				{"endpoints", endpointTable},
				{"ecds", extensionTable},
				{"secrets", secretTable},
			} {
				x := part.table(d, s)
				whole[part.name], rows = x.whole, append(rows, x.rows...)
				if a.isTable() {
					fmt.Fprintf(c.OutOrStdout(), "%s:\n", strings.ToUpper(part.name))
					if err := a.printAnswer(c, x); err != nil {
						return err
					}
					fmt.Fprintln(c.OutOrStdout())
				}
			}
			if a.isTable() {
				return nil
			}
			return a.printAnswer(c, answer{whole: whole, rows: rows})
		},
	}
	s.addFlags(c)
	return c
}

// errNoBootstrap is returned for the dump of a control plane, which does not know bootstraps.
var errNoBootstrap = errors.New("the control plane does not have the bootstrap of a proxy: name the pod, or read Envoy's /config_dump with --file")

// bootstrapConfig returns the command that prints the bootstrap in Envoy's dump, as YAML with
// --output yaml, and as JSON with json and table formats. It refuses name output. Without --file it
// reads the dump of Envoy itself, because the control plane does not know bootstraps. It fails if
// the dump has none.
func (a *pageClient) bootstrapConfig() *cobra.Command {
	var s selection
	c := &cobra.Command{
		Use: "bootstrap [NAME[.NAMESPACE]]", Aliases: []string{"b"}, Args: cobra.MaximumNArgs(1),
		Short: "Show the bootstrap that Envoy started with",
		RunE: func(c *cobra.Command, args []string) error {
			if a.output == nameFormat {
				return errors.New("--output name: the bootstrap has no name, want json or yaml")
			}
			s.envoy = true // the control plane does not know bootstraps
			d, err := a.readDump(c, args, s)
			if err != nil {
				return err
			}
			if len(d.Bootstrap) == 0 {
				return errNoBootstrap
			}
			var whole any
			if err := json.Unmarshal(d.Bootstrap, &whole); err != nil {
				return fmt.Errorf("read the bootstrap: %w", err)
			}
			if a.isTable() {
				a.output = "json"
			}
			return a.printAnswer(c, answer{whole: whole})
		},
	}
	s.addFlags(c)
	return c
}
