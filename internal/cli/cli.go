package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/command"
	"github.com/meshpilot/meshpilot/internal/debug"
)

const timeout = 10 * time.Second

// New is the command tree of pilotctl.
func New() *cobra.Command {
	a := &asker{}
	c := &cobra.Command{
		Use: "pilotctl", Short: "Ask a control plane what it does", SilenceUsage: true, SilenceErrors: true,
	}
	c.PersistentFlags().StringVar(&a.server, "server", "127.0.0.1:8080", "HTTP port of the control plane")
	c.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "table or json")
	c.AddCommand(
		a.proxyStatus(), a.problems(), a.nacks(), a.services(),
		command.Request("Read a page of the control plane as it is", "127.0.0.1:8080"), command.Version(),
	)
	return c
}

// asker reads debug pages.
type asker struct{ server, output string }

// page reads a page, and prints it as it came if JSON was asked for; done says so.
func (a *asker) page(c *cobra.Command, path string, into any) (done bool, err error) {
	body, err := a.get(c.Context(), path)
	if err != nil {
		return false, err
	}
	switch a.output {
	case "json":
		_, err := c.OutOrStdout().Write(body)
		return true, err
	case "table":
	default:
		return false, fmt.Errorf("--output %q: want table or json", a.output)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return false, nil
}

func (a *asker) get(ctx context.Context, path string) ([]byte, error) {
	url := "http://" + a.server + path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("--server %q: %w", a.server, err)
	}
	answer, err := (&http.Client{Timeout: timeout}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane (--server): %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", url, answer.Status, body)
	}
	return body, nil
}

// table writes rows in aligned columns.
func table(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		for i, cell := range r {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func (a *asker) proxyStatus() *cobra.Command {
	return &cobra.Command{
		Use: "proxy-status", Aliases: []string{"ps"}, Short: "Who is connected, and whether they took what they were sent", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.SyncStatus
			if done, err := a.page(c, "/debug/syncz", &list); done || err != nil {
				return err
			}
			rows := make([][]string, 0, len(list))
			for _, s := range list {
				rows = append(rows, []string{
					s.Proxy, s.ClusterID, state(s.ClusterSent, s.ClusterAcked), state(s.ListenerSent, s.ListenerAcked),
					state(s.EndpointSent, s.EndpointAcked), state(s.RouteSent, s.RouteAcked), s.IstioVersion,
				})
			}
			return table(c.OutOrStdout(), "NAME\tCLUSTER\tCDS\tLDS\tEDS\tRDS\tVERSION", rows)
		},
	}
}

// state says in istioctl's words how what was sent and what was taken compare.
func state(sent, acked string) string {
	switch {
	case sent == "":
		return "NOT SENT"
	case sent == acked:
		return "SYNCED"
	default:
		return "STALE"
	}
}

func (a *asker) problems() *cobra.Command {
	return &cobra.Command{
		Use: "problems", Short: "What is wrong with config objects, or not honoured", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.Problem
			if done, err := a.page(c, "/debug/problemz", &list); done || err != nil {
				return err
			}
			for _, p := range list {
				c.Println(p.String())
			}
			if len(list) == 0 {
				c.Println("no problems")
			}
			return nil
		},
	}
}

func (a *asker) nacks() *cobra.Command {
	return &cobra.Command{
		Use: "nacks", Short: "What proxies refused, why, and the objects that it came from", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.Nack
			if done, err := a.page(c, "/debug/nackz", &list); done || err != nil {
				return err
			}
			rows := make([][]string, 0, len(list))
			for _, n := range list {
				if len(n.Resources) == 0 {
					rows = append(rows, []string{n.Proxy, n.Type, "", "", n.Message})
				}
				for _, r := range n.Resources {
					from := make([]string, 0, len(r.From))
					for _, k := range r.From {
						from = append(from, k.String())
					}
					rows = append(rows, []string{n.Proxy, n.Type, r.Name, strings.Join(from, ","), n.Message})
				}
			}
			return table(c.OutOrStdout(), "PROXY\tTYPE\tRESOURCE\tFROM\tMESSAGE", rows)
		},
	}
}

func (a *asker) services() *cobra.Command {
	return &cobra.Command{
		Use: "services", Short: "All services that the control plane knows", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var list []debug.Service
			if done, err := a.page(c, "/debug/registryz", &list); done || err != nil {
				return err
			}
			rows := make([][]string, 0, len(list))
			for _, s := range list {
				ports := ""
				for i, p := range s.Ports {
					if i > 0 {
						ports += ","
					}
					protocol := p.Protocol
					if protocol == debug.DetectedProtocol {
						protocol = "detected"
					}
					ports += fmt.Sprintf("%d/%s", p.Port, protocol)
				}
				rows = append(rows, []string{s.Hostname, s.Attributes.Namespace, s.Attributes.ServiceRegistry, s.DefaultAddress, ports})
			}
			return table(c.OutOrStdout(), "HOSTNAME\tNAMESPACE\tREGISTRY\tADDRESS\tPORTS", rows)
		},
	}
}
