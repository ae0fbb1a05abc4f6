package cli

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
)

// describeCommand returns the commands that show what applies to a pod or a service.
func (a *pageClient) describeCommand() *cobra.Command {
	pod := &cobra.Command{
		Use: "pod NAME[.NAMESPACE]", Aliases: []string{"po", "proxy"}, Args: cobra.ExactArgs(1),
		Short: "Show the services, rules, policies and mutual TLS of a pod",
		Long: "describe pod shows what the control plane knows about a pod with a proxy: the services that it serves with their\n" +
			"DestinationRules, VirtualServices and Gateways, the mode of mutual TLS, the policies and the other objects that select it,\n" +
			"and warnings. The pod must be connected; check-inject shows why another one has no proxy.",
		Example: "  pilotctl describe pod reviews-v1-7d6b.bookinfo",
		RunE: func(c *cobra.Command, args []string) error {
			return a.printDescription(c, url.Values{"proxyID": {a.proxyName(args[0])}}, new(describe.Proxy))
		},
	}
	service := &cobra.Command{
		Use: "service NAME[.NAMESPACE]", Aliases: []string{"svc"}, Args: cobra.ExactArgs(1),
		Short: "Show the ports, rules, routes and Gateways of a service",
		Long: "describe service shows what applies to calls of a service: its ports and endpoints, the merged DestinationRule with its\n" +
			"subsets, the VirtualServices with routes for it or to it, the Gateways through which it is reached from outside, and warnings.\n" +
			"The name is a hostname, or its beginning.",
		Example: "  pilotctl describe service reviews.bookinfo",
		RunE: func(c *cobra.Command, args []string) error {
			return a.printDescription(c, url.Values{"service": {a.proxyName(args[0])}}, new(describe.Service))
		},
	}
	return groupCommand(&cobra.Command{
		Use: "describe", Aliases: []string{"des"}, Short: "Show what applies to a pod or a service",
	}, pod, service)
}

// printDescription reads the debug page describe into the value that into points to, and prints it
// in the format of --output.
func (a *pageClient) printDescription(c *cobra.Command, query url.Values, into fmt.Stringer) error {
	if err := a.readPage(c, "describe", query, into); err != nil {
		return err
	}
	if !a.isTable() {
		return a.printAnswer(c, answer{whole: into})
	}
	_, err := fmt.Fprint(c.OutOrStdout(), into)
	return err
}
