package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// registries returns the command that lists what each replica reads services from.
func (a *pageClient) registries() *cobra.Command {
	return &cobra.Command{
		Use:   "registries",
		Short: "List the registries and clusters that each replica reads, with their state, lag and errors",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := a.readRegistries(c)
			if err != nil {
				return err
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

// registryRow returns a row of the table. Unknown values are "-".
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

// readRegistries reads the registries of all replicas. A replica that does not answer is named in a
// warning. If none answers, it returns the errors of all.
func (a *pageClient) readRegistries(c *cobra.Command) ([]readapi.Registries, error) {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return nil, err
	}
	var all []readapi.Registries
	var failures []error
	for _, r := range control.Replicas {
		var x readapi.Registries
		body, err := readReplica(c.Context(), r, readapi.Prefix+"/registries", nil)
		if err == nil {
			err = json.Unmarshal(body, &x)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, errors.Join(failures...)
	}
	for _, err := range failures {
		fmt.Fprintln(c.ErrOrStderr(), "warning: the output is incomplete:", err)
	}
	return all, nil
}
