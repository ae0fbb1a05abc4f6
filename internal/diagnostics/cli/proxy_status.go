package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// proxyStatus returns the command that lists the connected proxies. With NAME[.NAMESPACE] it lists
// the state of each resource type of the proxies with that name, compared with what their Envoys
// have. It is an error if no such proxy is connected.
func (a *pageClient) proxyStatus() *cobra.Command {
	var admin string
	diff := false
	c := &cobra.Command{
		Use: "proxy-status [NAME[.NAMESPACE]]", Aliases: []string{"ps"}, Args: cobra.MaximumNArgs(1),
		Short: "List connected proxies and whether they acknowledged their configuration",
		Long: "proxy-status lists the connected proxies and whether they acknowledged their configuration.\n\n" +
			"With a name it shows the state of each type for one proxy. If its Envoy can be reached, in a pod of the kubeconfig's cluster\n" +
			"or at --admin, the column ENVOY compares the clusters, listeners, routes and extensions that Envoy has with those that it was\n" +
			"sent: MATCH, or the number of resources that differ, are missing or are extra. --diff prints the differences.",
		RunE: func(c *cobra.Command, args []string) error {
			list, err := a.readProxies(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.printAnswer(
					c,
					answer{
						whole: list, rows: statusRows(list, time.Now()), wide: 3,
						none:   "no proxy is connected",
						header: "NAME\tCLUSTER\tCDS\tLDS\tEDS\tRDS\tECDS\tVERSION\tENVOY VERSION\tAGE\tREPLICA\tTYPE\tREFUSED",
					},
				)
			}
			list = slices.DeleteFunc(list, func(s proxyState) bool {
				return s.Proxy != args[0] && !strings.HasPrefix(s.Proxy, args[0]+".")
			})
			if len(list) == 0 {
				return &missingProxyError{proxy: args[0]}
			}
			return a.printOneStatus(c, list, admin, diff)
		},
	}
	addAdminFlag(c.Flags(), &admin)
	c.Flags().BoolVar(&diff, "diff", false, "print what differs between the control plane and Envoy")
	return c
}

// printOneStatus prints the state of each type of the proxies, and compares it with their Envoys if
// the control plane is reached through a kubeconfig or admin is set. It stores the comparisons in
// list. An Envoy that cannot be reached is named in a warning. If diff is set, it prints the
// differences, and returns an error if there is neither a kubeconfig nor admin.
func (a *pageClient) printOneStatus(c *cobra.Command, list []proxyState, admin string, diff bool) error {
	const columns = "NAME\tTYPE\tSTATUS\tSENT\tACKED\tQUARANTINED\tERROR"
	x := answer{whole: list, header: columns + "\tSENT AGO", rows: typeRows(list, time.Now()), wide: 1}
	if admin == "" && !a.options().UsesKubernetes() {
		if diff {
			return errors.New("--diff: Envoy is reached through a kubeconfig, or with --admin")
		}
		return a.printAnswer(c, x)
	}
	x.header = columns + "\tENVOY\tSENT AGO"
	var differences []string
	row := 0
	for i := range list {
		found, err := a.compareWithEnvoy(c, list[i].Proxy, admin)
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s is not compared with its Envoy: %v\n", list[i].Proxy, err)
		}
		list[i].Envoy = found
		for _, url := range slices.Sorted(maps.Keys(list[i].Resources)) {
			text := "-"
			if kind, ok := found[url[strings.LastIndexByte(url, '.')+1:]]; ok {
				text = kind.String()
				differences = append(differences, kind.diffs...)
			}
			x.rows[row] = slices.Insert(x.rows[row], len(x.rows[row])-1, text)
			row++
		}
	}
	if err := a.printAnswer(c, x); err != nil || !diff {
		return err
	}
	_, err := fmt.Fprint(c.OutOrStdout(), strings.Join(differences, "\n"))
	return err
}

// proxyState is the state of a proxy, and the replica to which it is connected.
type proxyState struct {
	debug.SyncStatus
	Replica string `json:"replica,omitempty"`
	// Envoy has the differences to what Envoy has, by type, if they were compared.
	Envoy map[string]comparison `json:"envoy,omitempty"`
}

// readProxies reads the proxies of all replicas, in --namespace if that is set, sorted by name.
// Replicas that do not answer are warned of.
func (a *pageClient) readProxies(c *cobra.Command) ([]proxyState, error) {
	answers, err := readAPI[readapi.ProxyStates](a, c, "/proxy-states", url.Values{})
	if err != nil {
		return nil, err
	}
	list := []proxyState{}
	for _, x := range answers {
		warnUnanswered(c, x.Unanswered)
		for _, p := range x.Proxies {
			if a.namespace == "" || strings.HasSuffix(p.Proxy, "."+a.namespace) {
				list = append(list, proxyState{SyncStatus: p.SyncStatus, Replica: p.Replica})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y proxyState) int { return strings.Compare(x.Proxy, y.Proxy) })
	return list, nil
}

// statusRows returns one row per proxy, in their order, with its age at the time now. Unknown
// versions and no rejections are "-".
func statusRows(list []proxyState, now time.Time) [][]string {
	var rows [][]string
	for _, s := range list {
		row := []string{s.Proxy, s.ClusterID}
		for _, t := range []string{"Cluster", "Listener", "ClusterLoadAssignment", "RouteConfiguration",
			"TypedExtensionConfig"} {
			row = append(row, resourceOf(s.SyncStatus, t).SyncState())
		}
		rows = append(rows, append(row,
			cmp.Or(s.IstioVersion, "-"),
			cmp.Or(s.EnvoyVersion, "-"),
			age(s.ConnectedAt, now),
			s.Replica,
			s.ProxyType,
			cmp.Or(s.RefusedText(), "-"),
		))
	}
	return rows
}

// resourceOf returns the state of the type whose URL ends with "."+kind. It returns the zero value
// if the proxy has not requested the type.
func resourceOf(s debug.SyncStatus, kind string) debug.ResourceStatus {
	for url, r := range s.Resources {
		if strings.HasSuffix(url, "."+kind) {
			return r
		}
	}
	return debug.ResourceStatus{}
}

// typeRows returns one row per proxy and requested type, sorted by type URL within each proxy. The
// last column is the time since the last response.
func typeRows(list []proxyState, now time.Time) [][]string {
	var rows [][]string
	for _, s := range list {
		for _, url := range slices.Sorted(maps.Keys(s.Resources)) {
			r := s.Resources[url]
			rows = append(
				rows,
				[]string{
					s.Proxy,
					url[strings.LastIndexByte(url, '.')+1:],
					r.SyncState(),
					r.Sent,
					r.Acked,
					strings.Join(r.Quarantined, ","),
					r.LastError,
					age(r.SentTime, now),
				},
			)
		}
	}
	return rows
}
