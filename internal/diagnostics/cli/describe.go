package cli

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
)

// describeCommand returns the command "describe" with its subcommands "pod" and "service", which
// print what applies to a connected pod or to a service. They fail if there is no such pod or
// service.
func (a *pageClient) describeCommand() *cobra.Command {
	pod := &cobra.Command{
		Use: "pod NAME[.NAMESPACE]", Aliases: []string{"po", "proxy"}, Args: cobra.ExactArgs(1),
		Short: "Show the services, rules, policies and mutual TLS of a pod",
		Long: "describe pod shows what the control plane knows about a pod with a proxy: the services that it serves with their\n" +
			"DestinationRules, VirtualServices and Gateways, the mode of mutual TLS, the policies and the other objects that select it,\n" +
			"and warnings. The pod must be connected; check-inject shows why another one has no proxy.",
		Example: "  pilotctl describe pod reviews-v1-7d6b.bookinfo",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.describeProxy(c, a.proxyName(args[0]))
			if err != nil {
				return err
			}
			return a.printDescription(c, d)
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
			d, err := readDescription[describe.Service](a, c, "/services/"+url.PathEscape(a.proxyName(args[0])))
			if err != nil {
				return err
			}
			return a.printDescription(c, d)
		},
	}
	return groupCommand(&cobra.Command{
		Use: "describe", Aliases: []string{"des"}, Short: "Show what applies to a pod or a service",
	}, pod, service)
}

// describeProxy reads what applies to a proxy. It returns a *missingProxyError if no replica has it.
func (a *pageClient) describeProxy(c *cobra.Command, name string) (*describe.Proxy, error) {
	d, err := readDescription[describe.Proxy](a, c, "/proxies/"+url.PathEscape(name))
	if isNotFound(err) {
		return nil, &missingProxyError{name, err}
	}
	return d, err
}

// readDescription reads what applies to the proxy or service at a path of the read API, from the
// first replica that answers.
func readDescription[T any](a *pageClient, c *cobra.Command, path string) (*T, error) {
	x, err := readFirst[struct{ Description *T }](a, c, path+"/description", nil)
	return x.Description, err
}

// printDescription prints a description in the format of --output.
func (a *pageClient) printDescription(c *cobra.Command, d fmt.Stringer) error {
	if !a.isTable() {
		return a.printAnswer(c, answer{whole: d})
	}
	_, err := fmt.Fprint(c.OutOrStdout(), d)
	return err
}
