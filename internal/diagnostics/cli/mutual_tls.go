package cli

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// mutualTLSCommand returns the command that lists the modes of mutual TLS of workloads. Workloads
// that are left out of the answer are a warning.
func (a *pageClient) mutualTLSCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mtls [TEXT]", Args: cobra.MaximumNArgs(1),
		Short: "List the mode of mutual TLS of each workload, and its callers in plain text",
		Long: "mtls lists the mode of mutual TLS of each workload, with the modes of ports that differ and the PeerAuthentications that\n" +
			"define them. PLAIN TEXT FROM are the namespaces whose proxies call the workload in plain text because of their configuration,\n" +
			"usually a DestinationRule; \"refused\" follows where the mode is STRICT. Workloads without a proxy have the mode \"no proxy\":\n" +
			"they call in plain text, and no STRICT workload accepts them. With TEXT only workloads whose NAMESPACE/NAME contains it.\n\n" +
			"pilotctl describe pod shows the mode of one pod, with the other objects that apply to it.",
		Example: "  pilotctl mtls\n  pilotctl mtls -n shop -o wide",
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{}
			if a.namespace != "" {
				query.Set("namespace", a.namespace)
			}
			if len(args) > 0 {
				query.Set("filter", args[0])
			}
			x, err := readFirst[readapi.MutualTLSAnswer](a, c, "/mutual-tls", query)
			if err != nil {
				return err
			}
			if x.Omitted > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %d more workloads are not listed; name a part of them\n",
					x.Omitted)
			}
			return a.printAnswer(c, mutualTLSTable(x))
		},
	}
}

// mutualTLSTable returns the table of workloads. The last two columns are wide. A workload without
// a proxy has the mode "no proxy", a gateway "gateway". A mode that no object defines is defined by
// "the default"; other missing values are "-".
func mutualTLSTable(x readapi.MutualTLSAnswer) answer {
	t := answer{
		whole: x, header: "NAMESPACE\tWORKLOAD\tINSTANCES\tMODE\tPORTS\tPLAIN TEXT FROM\tDEFINED BY\tACCOUNT", wide: 2,
		none: "no workloads",
		name: func(row []string) string { return row[0] + "/" + row[1] },
	}
	for _, w := range x.Workloads {
		mode, ports, from := "no proxy", "-", "-"
		switch {
		case w.MutualTLS != nil:
			var list []string
			for _, p := range slices.Sorted(maps.Keys(w.MutualTLS.Ports)) {
				list = append(list, p+"="+w.MutualTLS.Ports[p])
			}
			mode, ports = w.MutualTLS.Mode, cmp.Or(strings.Join(list, ","), "-")
			from = cmp.Or(strings.Join(w.MutualTLS.From, ","), "the default")
		case w.Proxy == "gateway":
			mode = "gateway"
		}
		t.rows = append(t.rows, []string{
			w.Namespace, w.Name, strconv.Itoa(w.Instances), mode, ports, plainTextCallers(w.PlainText), from,
			cmp.Or(w.Account, "-"),
		})
	}
	return t
}

// plainTextCallers returns the callers in plain text in one cell: namespaces, the number of others,
// rules that configure them, and "(refused)". Equal texts are listed once; without callers it is
// "-".
func plainTextCallers(calls []readapi.PlainTextCall) string {
	var list []string
	for _, c := range calls {
		text := strings.Join(c.Namespaces, ",")
		if n := c.Callers - len(c.Namespaces); n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		for _, r := range c.Rules {
			text += " by " + sourceText(r)
		}
		if c.Refused {
			text += " (refused)"
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return cmp.Or(strings.Join(list, "; "), "-")
}
