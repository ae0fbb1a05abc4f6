package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// topologyCommand returns the command that lists the calls that objects name, as the first replica
// that answers knows them. With --namespace it lists only calls from or to the namespace. Omitted
// nodes and calls are a warning.
func (a *pageClient) topologyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "topology", Args: cobra.NoArgs,
		Short: "List the calls between services that configuration names",
		Long: "topology lists the calls between services that objects name: Sidecars, the routes of gateways, the callers in\n" +
			"AuthorizationPolicies, and VirtualServices that send calls of one service to another (\"->\"). NAMESPACE/* is all services and\n" +
			"workloads of a namespace or, as TO, its services that no policy restricts. Not listed are the calls of workloads that\n" +
			"nothing limits to services that nothing restricts: all of these are possible.\n\n" +
			"pilotctl callers evaluates the calls of one service.",
		Example: "  pilotctl topology\n  pilotctl topology -n bookinfo",
		RunE: func(c *cobra.Command, _ []string) error {
			x, err := readFirst[readapi.Topology](a, c, "/topology", nil)
			if err != nil {
				return err
			}
			if x.Omitted > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %d more nodes and calls are not listed\n", x.Omitted)
			}
			if a.namespace != "" {
				keepNamespace(&x, a.namespace)
			}
			return a.printAnswer(c, topologyTable(x))
		},
	}
}

// keepNamespace removes the calls that are neither from nor to the namespace, and the nodes of other
// namespaces that are an end of none of the calls left.
func keepNamespace(x *readapi.Topology, namespace string) {
	named := map[readapi.TopologyEnd]bool{}
	x.Calls = slices.DeleteFunc(x.Calls, func(call readapi.TopologyCall) bool {
		if call.From.Namespace != namespace && call.To.Namespace != namespace {
			return true
		}
		named[call.From], named[call.To] = true, true
		return false
	})
	x.Nodes = slices.DeleteFunc(x.Nodes, func(n readapi.TopologyNode) bool {
		return n.Namespace != namespace && !named[n.TopologyEnd]
	})
}

// topologyTable returns the table of the calls. Routed calls have "->" before the destination, and
// calls that no object names "-" as object.
func topologyTable(x readapi.Topology) answer {
	t := answer{whole: x, header: "FROM\tTO\tBY", none: "no call is named by an object"}
	for _, call := range x.Calls {
		by := make([]string, 0, len(call.By))
		for _, o := range call.By {
			by = append(by, sourceText(o))
		}
		to := call.To.String()
		if call.Routed {
			to = "-> " + to
		}
		if len(by) == 0 {
			by = append(by, "-")
		}
		t.rows = append(t.rows, []string{call.From.String(), to, strings.Join(by, ", ")})
	}
	return t
}
