package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// proxyStatus returns the command that lists the connected proxies, or the state of each resource
// type of one proxy. It is an error if that proxy is not connected.
func (a *pageClient) proxyStatus() *cobra.Command {
	return &cobra.Command{
		Use: "proxy-status [NAME[.NAMESPACE]]", Aliases: []string{"ps"}, Args: cobra.MaximumNArgs(1),
		Short: "List connected proxies and whether they acknowledged their configuration",
		RunE: func(c *cobra.Command, args []string) error {
			pages, err := readPages[[]debug.SyncStatus](a, c, "syncz", nil)
			if err != nil {
				return err
			}
			list := a.proxiesOf(pages)
			if len(args) == 0 {
				return a.printAnswer(
					c,
					answer{
						whole: list, rows: statusRows(list, time.Now()), wide: 3,
						header: "NAME\tCLUSTER\tCDS\tLDS\tEDS\tRDS\tECDS\tVERSION\tAGE\tREPLICA\tTYPE\tREFUSED",
					},
				)
			}
			list = slices.DeleteFunc(list, func(s proxyState) bool {
				return s.Proxy != args[0] && !strings.HasPrefix(s.Proxy, args[0]+".")
			})
			if len(list) == 0 {
				return fmt.Errorf(
					"no proxy %q is connected to this control plane; pilotctl proxy-status lists the connected ones",
					args[0],
				)
			}
			return a.printAnswer(
				c,
				answer{
					whole: list, rows: typeRows(list, time.Now()), wide: 1,
					header: "NAME\tTYPE\tSTATUS\tSENT\tACKED\tQUARANTINED\tERROR\tSENT AGO",
				},
			)
		},
	}
}

// proxyState is the state of a proxy, and the replica to which it is connected.
type proxyState struct {
	debug.SyncStatus
	Replica string `json:"replica,omitempty"`
}

// proxiesOf returns the proxies of all replicas, in --namespace if that is set, sorted by name.
func (a *pageClient) proxiesOf(pages []replicaPage[[]debug.SyncStatus]) []proxyState {
	list := []proxyState{}
	for _, page := range pages {
		for _, s := range page.value {
			if a.namespace == "" || strings.HasSuffix(s.Proxy, "."+a.namespace) {
				list = append(list, proxyState{s, page.replica.Name})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y proxyState) int { return strings.Compare(x.Proxy, y.Proxy) })
	return list
}

// statusRows returns one row per proxy.
func statusRows(list []proxyState, now time.Time) [][]string {
	var rows [][]string
	for _, s := range list {
		row := []string{s.Proxy, s.ClusterID}
		for _, t := range []string{"Cluster", "Listener", "ClusterLoadAssignment", "RouteConfiguration", "TypedExtensionConfig"} {
			row = append(row, resourceOf(s.SyncStatus, t).SyncState())
		}
		rows = append(rows, append(row, s.IstioVersion, age(s.ConnectedAt, now), s.Replica, s.ProxyType, cmp.Or(s.RefusedText(), "-")))
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

// typeRows returns one row per proxy and type.
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
