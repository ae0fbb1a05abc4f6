package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// callersCommand returns the command that lists which workloads may call a service. It asks the
// first replica that answers. Workloads that the answer omits are a warning on the error output.
func (a *pageClient) callersCommand() *cobra.Command {
	var port uint16
	var method, path, filter string
	c := &cobra.Command{
		Use: "callers SERVICE[.NAMESPACE]", Args: cobra.ExactArgs(1),
		Short: "List which workloads may call a service, and the rules that decide",
		Long: "callers lists all workloads with a verdict on their calls of a service: allowed, denied, partly for some of the requests, or\n" +
			"out of scope if a Sidecar or exportTo hides the service. DECIDED BY are the rules of the AuthorizationPolicies of the workloads\n" +
			"that serve it, or the PeerAuthentication that refuses plain text. Without --path the requests are GET / and those that rules\n" +
			"name; they have no headers and no token. The verdicts are computed from the configuration that the control plane generates.\n\n" +
			"pilotctl explain shows one call in detail.",
		Example: "  pilotctl callers reviews.bookinfo\n  pilotctl callers reviews.bookinfo -X DELETE --path /reviews/0",
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"method": method, "path": path, "filter": filter} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if port != 0 {
				query.Set("port", strconv.Itoa(int(port)))
			}
			x, err := readFirst[readapi.ServiceCallers](a, c,
				"/services/"+url.PathEscape(a.proxyName(args[0]))+"/callers", query)
			if err != nil {
				return err
			}
			if x.Omitted > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %d more workloads are not listed\n", x.Omitted)
			}
			return a.printAnswer(c, callersTable(x))
		},
	}
	fs := c.Flags()
	fs.Uint16Var(&port, "port", 0, "port of the service (default: its first)")
	fs.StringVarP(&method, "method", "X", "", "method of the request (default: GET, and those that rules name)")
	fs.StringVar(&path, "path", "", "path of the request (default: /, and those that rules name)")
	fs.StringVar(&filter, "filter", "", "only callers whose NAMESPACE/NAME contains this text")
	return c
}

// callersTable returns the table of callers, one row each. Rules are followed by request and
// verdict if the caller has several decisions. The transport of an out-of-scope caller is "-", and
// so are missing values. The last two columns are wide.
func callersTable(x readapi.ServiceCallers) answer {
	t := answer{
		whole: x, header: "NAMESPACE\tWORKLOAD\tVERDICT\tTRANSPORT\tDECIDED BY\tACCOUNT\tREASON", wide: 2,
		none: "no workload is known",
		name: func(row []string) string { return row[0] + "/" + row[1] },
	}
	for _, c := range x.Callers {
		transport := c.Transport
		if c.Verdict == connectivity.OutOfScope {
			transport = "-"
		}
		by, reasons := []string{}, []string{}
		for _, d := range c.Decisions {
			reasons = append(reasons, strings.TrimSpace(d.Request+": "+d.Reason))
			for _, r := range d.By {
				text := strings.TrimSpace(sourceText(r.Source) + " " + r.Rule)
				if len(c.Decisions) > 1 {
					text += " (" + strings.TrimSpace(d.Request+" "+string(d.Verdict)) + ")"
				}
				by = append(by, text)
			}
		}
		t.rows = append(t.rows, []string{
			c.Namespace, c.Name, string(c.Verdict), transport, cmp.Or(strings.Join(by, ", "), c.Scope, "-"),
			cmp.Or(c.Account, "-"),
			cmp.Or(strings.Join(reasons, "; "), "-"),
		})
	}
	return t
}
