package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// registries returns the command that lists what each replica reads services from. Replicas that do
// not answer are named in warnings.
func (a *pageClient) registries() *cobra.Command {
	return &cobra.Command{
		Use:   "registries",
		Short: "List the registries and clusters that each replica reads, with their state, lag and errors",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			answers, err := readAPI[readapi.RegistriesAnswer](a, c, "/registries", url.Values{})
			if err != nil {
				return err
			}
			var all []readapi.Registries
			for _, x := range answers {
				all = append(append(all, x.Registries), x.Peers...)
				warnUnanswered(c, x.Unanswered)
			}
			var rows [][]string
			for _, x := range all {
				for _, r := range x.Registries {
					rows = append(rows, registryRow(x.Replica, r))
				}
			}
			return a.printAnswer(c, answer{
				whole:  all,
				header: "REPLICA\tNAME\tSTATE\tLAST SYNC\tLAG\tSERVICES\tINSTANCES\tHELD\tFAILURES\tERROR",
				rows:   rows,
			})
		},
	}
}

// warnWaiting prints a warning for each registry of a replica that was not read since the start of
// the control plane, because its problems are not listed. It does nothing if the registries cannot
// be listed.
func (a *pageClient) warnWaiting(c *cobra.Command) {
	answers, err := readAPI[readapi.RegistriesAnswer](a, c, "/registries", url.Values{})
	if err != nil {
		return
	}
	for _, x := range answers {
		for _, replica := range append(x.Peers, x.Registries) {
			for _, r := range replica.Registries {
				if r.State == readapi.RegistryWaiting {
					fmt.Fprintf(c.ErrOrStderr(), "warning: the output is incomplete: %s was not read yet by %s: %s\n", r.Name,
						cmp.Or(replica.Replica, "the control plane"), cmp.Or(r.Error, "no error is known"))
				}
			}
		}
	}
}

// registryRow returns a row of the table. Unknown values and a lag of 0 are "-"; without an error
// the last cell is empty.
func registryRow(replica string, r readapi.Registry) []string {
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	synced, lag := "-", "-"
	if r.LastSync != nil {
		synced = r.LastSync.UTC().Format(time.RFC3339)
	}
	if r.LagSeconds > 0 {
		lag = (time.Duration(r.LagSeconds) * time.Second).String()
	}
	return []string{
		cmp.Or(replica, "-"), r.Name, string(r.State), synced, lag, number(r.Services), number(r.Instances),
		strconv.Itoa(r.Held), strconv.Itoa(r.Failures), r.Error,
	}
}
