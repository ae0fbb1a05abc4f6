package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// remoteClusters returns the command that lists the clusters of clusterz and their state.
func (a *pageClient) remoteClusters() *cobra.Command {
	return &cobra.Command{
		Use:   "remote-clusters",
		Short: "List the clusters that services are read from, with their sync status",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.Cluster
			if err := a.readPage(c, "clusterz", nil, &list); err != nil {
				return err
			}
			var rows [][]string
			for _, x := range list {
				rows = append(rows, []string{
					x.ID,
					x.SecretName,
					x.SyncStatus,
					strconv.Itoa(x.Services),
					strconv.Itoa(x.Workloads),
					strconv.Itoa(x.Slices),
					x.Waiting,
				})
			}
			return a.printAnswer(
				c,
				answer{
					whole:  list,
					header: "NAME\tSECRET\tSTATUS\tSERVICES\tWORKLOADS\tSLICES\tWAITING FOR",
					rows:   rows,
				},
			)
		},
	}
}
