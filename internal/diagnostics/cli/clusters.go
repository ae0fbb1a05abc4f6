package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// remoteClusters returns the command that lists the clusters that services are read from, as the
// first replica that answers knows them.
func (a *pageClient) remoteClusters() *cobra.Command {
	return &cobra.Command{
		Use:   "remote-clusters",
		Short: "List the clusters that services are read from, with their sync status",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := readFirst[readapi.ClusterList](a, c, "/registry/clusters", nil)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, x := range list.Clusters {
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
					whole:  list.Clusters,
					header: "NAME\tSECRET\tSTATUS\tSERVICES\tWORKLOADS\tSLICES\tWAITING FOR",
					rows:   rows,
				},
			)
		},
	}
}
