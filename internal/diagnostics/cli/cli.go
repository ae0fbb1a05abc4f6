package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

const timeout = 10 * time.Second

// New returns the command tree of pilotctl. The first kubeconfig, if any, is the default of
// --kubeconfig of the workload commands.
func New(kubeconfig ...string) *cobra.Command {
	a := &pageClient{}
	if len(kubeconfig) > 0 {
		a.kubeconfig = kubeconfig[0]
	}
	c := &cobra.Command{
		Use: "pilotctl", Short: "Inspect a meshpilot control plane", SilenceUsage: true, SilenceErrors: true,
	}
	c.PersistentFlags().StringVar(&a.server, "server", "127.0.0.1:8080", "HTTP port of the control plane")
	c.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "table, json or yaml")
	c.PersistentFlags().StringVarP(&a.namespace, "namespace", "n", "", "only of this namespace")
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.checkFlags(c) }
	c.AddCommand(
		followFlags(a.proxyStatus(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.proxyConfig(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.problemsCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.nacksCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.servicesCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.endpointsCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.explainCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.remoteClusters(), serverFlag, outputFlag),
		followFlags(a.waitCommand(), serverFlag, outputFlag, namespaceFlag),
		followFlags(a.diffCommand(), serverFlag, namespaceFlag),
		followFlags(a.injectCommand(), namespaceFlag),
		followFlags(a.workloadCommand(), namespaceFlag),
		followFlags(a.logLevels(), outputFlag),
		a.analyzeCommand(),
		a.validateCommand(),
		a.requestCommand(),
		command.Version(),
	)
	return c
}

// The flags that all commands inherit. Each command lists with followFlags which of them it follows.
const (
	serverFlag    = "server"
	outputFlag    = "output"
	namespaceFlag = "namespace"
)

// followFlags declares which inherited flags have an effect on a command and on the commands below
// it.
func followFlags(c *cobra.Command, names ...string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for _, n := range names {
		c.Annotations[n] = "followed"
	}
	return c
}

// checkFlags returns an error if --output has an unknown format, or if an inherited flag is set that
// has no effect on the command. Flags of the command's own with the same name are not checked.
func (a *pageClient) checkFlags(c *cobra.Command) error {
	for _, name := range []string{serverFlag, outputFlag, namespaceFlag} {
		f := c.InheritedFlags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		followed := false
		for parent := c; parent != nil && !followed; parent = parent.Parent() {
			followed = parent.Annotations[name] != ""
		}
		if !followed {
			return fmt.Errorf("--%s has no effect on %q", name, c.CommandPath())
		}
	}
	if !slices.Contains([]string{"table", "short", "json", "yaml"}, a.output) {
		return fmt.Errorf("--output %q: want table, json or yaml", a.output)
	}
	return nil
}

// groupCommand makes c a command that only has subcommands: without arguments it prints its help,
// and with an unknown subcommand it fails.
func groupCommand(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(commands...)
	return c
}

// requestCommand returns the command that prints a page of the control plane. --address is the
// former name of --server.
func (a *pageClient) requestCommand() *cobra.Command {
	c := command.Request("Read a page of the control plane as it is", &a.server)
	_ = c.Flags().MarkHidden("address") // the flag exists
	return followFlags(c, serverFlag)
}

// pageClient reads debug pages. Its fields are the persistent flags.
type pageClient struct{ server, output, namespace, kubeconfig string }

// answer is the result of a command: the data for JSON and YAML output, and the rows for table
// output.
type answer struct {
	whole  any
	header string
	rows   [][]string
	// none is printed instead of the table if there are no rows.
	none string
}

// printAnswer prints an answer in the format of --output, which checkFlags has checked.
func (a *pageClient) printAnswer(c *cobra.Command, x answer) error {
	out := c.OutOrStdout()
	switch a.output {
	case "json":
		b, err := json.MarshalIndent(x.whole, "", "    ")
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		_, err = fmt.Fprintln(out, string(b))
		return err
	case "yaml":
		b, err := yaml.Marshal(x.whole)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = out.Write(b)
		return err
	default:
		if len(x.rows) == 0 && x.none != "" {
			_, err := fmt.Fprintln(out, x.none)
			return err
		}
		return writeTable(out, x.header, x.rows)
	}
}

// isTable reports whether --output asks for tables.
func (a *pageClient) isTable() bool { return a.output == "table" || a.output == "short" }

// readPage reads a debug page and decodes its JSON into the value that into points to. It returns
// an error if the control plane is unreachable or answers with a status of 400 or above.
func (a *pageClient) readPage(ctx context.Context, name string, query url.Values, into any) error {
	path := "/debug/" + name
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, err := httpGet(ctx, "http://"+a.server+path)
	if err != nil {
		return fmt.Errorf("ask the control plane (--server %s): %w", a.server, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// httpGet returns the body of a GET request.
func httpGet(ctx context.Context, url string) ([]byte, error) {
	return httpDo(ctx, http.MethodGet, url, nil)
}

// httpDo sends an HTTP request and returns the body of the response. It returns an error with the
// body for a status of 400 or above.
func httpDo(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Timeout: timeout}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s answered %s: %s", url, answer.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}

// writeTable writes rows in aligned columns below the header.
func writeTable(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}
