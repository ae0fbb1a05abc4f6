package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// timeout bounds a request, unless its command has another time for it.
const timeout = 10 * time.Second

// New returns the command tree of pilotctl without an environment: there are no settings besides the
// arguments.
func New() *cobra.Command { return NewIn(Environment{}) }

// NewIn returns the command tree of pilotctl with the settings of an environment, such as
// KUBECONFIG. Commands check their inherited flags before they run, and close their connections
// when they end. The caller prints the errors of its commands.
func NewIn(e Environment) *cobra.Command {
	a := &pageClient{environment: e}
	c := groupCommand(&cobra.Command{
		Use: "pilotctl", Short: "Inspect a meshpilot control plane", SilenceUsage: true, SilenceErrors: true,
	})
	a.addFlags(c.PersistentFlags())
	c.PersistentFlags().StringVarP(&a.output, "output", "o", tableFormat,
		"table, wide (more columns), name, json or yaml")
	c.PersistentFlags().BoolVar(&a.noHeaders, "no-headers", false, "tables without the line of headers")
	c.PersistentFlags().StringVarP(&a.namespace, "namespace", "n", "", "only of this namespace")
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.prepare(c) }
	c.AddCommand(a.commands()...)
	assignGroups(c)
	a.closeAfterRun(c)
	describeUsage(c)
	a.addCompletion(c)
	a.addFlagCompletion(c)
	return c
}

// commands returns the commands below pilotctl, each with the inherited flags that it accepts
// (followFlags). Commands that print changing lists also have --watch (watchable).
func (a *pageClient) commands() []*cobra.Command {
	return []*cobra.Command{
		followFlags(a.watchable(a.proxyStatus()), tableFlags(namespaceFlag)...),
		followFlags(a.proxyConfig(), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.problemsCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.nacksCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.servicesCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.endpointsCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.explainCommand(), append(accessFlags(), outputFlag, namespaceFlag)...),
		followFlags(a.describeCommand(), append(accessFlags(), outputFlag, namespaceFlag)...),
		followFlags(a.authzCommand(), tableFlags(namespaceFlag)...),
		followFlags(a.checkInject(), append(clusterFlags(), outputFlag, noHeadersFlag, namespaceFlag)...),
		followFlags(a.tagCommand(), append(clusterFlags(), outputFlag, noHeadersFlag)...),
		followFlags(a.revisionCommand(), append(clusterFlags(), outputFlag, noHeadersFlag)...),
		followFlags(a.createRemoteSecret(), clusterFlags()...),
		followFlags(a.whyCommand(), append(accessFlags(), outputFlag, namespaceFlag)...),
		followFlags(a.watchable(a.remoteClusters()), tableFlags()...),
		followFlags(a.metricsCommand(), append(clusterFlags(), outputFlag, noHeadersFlag, namespaceFlag)...),
		followFlags(a.bugReportCommand(), append(accessFlags(), namespaceFlag)...),
		followFlags(a.rootCACompare(), append(clusterFlags(), namespaceFlag)...),
		followFlags(a.dashboardCommand(), append(clusterFlags(), revisionFlag, namespaceFlag)...),
		followFlags(a.checkCommand(), append(accessFlags(), namespaceFlag)...),
		followFlags(a.watchable(a.registries()), tableFlags()...),
		followFlags(a.watchable(a.certificatesCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.mutualTLSCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.historyCommand(), append(accessFlags(), outputFlag, namespaceFlag)...),
		followFlags(a.watchable(a.changesCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.callersCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.watchable(a.topologyCommand()), tableFlags(namespaceFlag)...),
		followFlags(a.waitCommand(), append(accessFlags(), outputFlag, namespaceFlag)...),
		followFlags(a.diffCommand(), append(accessFlags(), namespaceFlag)...),
		followFlags(a.compareCommand(), append(accessFlags(), namespaceFlag)...),
		followFlags(a.testCommand(), append(accessFlags(), namespaceFlag)...),
		followFlags(a.translateCommand()),
		followFlags(a.injectCommand(), namespaceFlag),
		followFlags(a.workloadCommand(), namespaceFlag),
		followFlags(a.meshCommand(), outputFlag, noHeadersFlag),
		followFlags(a.runProgramCommand(), namespaceFlag),
		followFlags(a.logLevels(), outputFlag, noHeadersFlag),
		followFlags(a.analyzeCommand(), kubeconfigFlag, contextFlag),
		followFlags(a.checkMigration(), kubeconfigFlag, contextFlag),
		followFlags(a.adapterCommand(), certFlag, keyFlag, rootsFlag, authorityFlag),
		a.validateCommand(),
		followFlags(a.requestCommand(), accessFlags()...),
		manCommand(),
		followFlags(a.versionCommand(), append(accessFlags(), namespaceFlag)...),
	}
}

// The flags that all commands inherit, besides accessFlags. Each command lists with followFlags
// which of them it follows.
const (
	outputFlag    = "output"
	noHeadersFlag = "no-headers"
	namespaceFlag = "namespace"
)

// tableFlags returns the names of the flags of a command that reads a control plane and prints a
// table, followed by more.
func tableFlags(more ...string) []string {
	return append(append(accessFlags(), outputFlag, noHeadersFlag), more...)
}

// prepare checks the flags of a command, and sets flags that are not given by the settings of the
// environment. It returns an error for a flag without effect, an invalid setting or format.
func (a *pageClient) prepare(c *cobra.Command) error {
	if err := a.checkFlags(c); err != nil {
		return err
	}
	if err := a.applySettings(c); err != nil {
		return err
	}
	return a.checkFormat()
}

// checkFormat returns an error if --output has an unknown format.
func (a *pageClient) checkFormat() error {
	if !slices.Contains(outputFormats(), a.output) {
		return fmt.Errorf("--output %q: want table, wide, name, json or yaml", a.output)
	}
	return nil
}

// closeAfterRun makes all commands below c, but not c itself, close their connections when they
// end. It also adds a hint to the error of a control plane that is not at the default address
// (withAddressHint).
func (a *pageClient) closeAfterRun(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.closeAfterRun(sub)
		if run := sub.RunE; run != nil {
			sub.RunE = func(c *cobra.Command, args []string) error {
				defer a.close()
				return a.withAddressHint(run(c, args))
			}
		}
	}
}

// followFlags records in c which inherited flags have an effect on it and on the commands below it,
// and returns c. checkFlags refuses the others.
func followFlags(c *cobra.Command, names ...string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for _, n := range names {
		c.Annotations[n] = "followed"
	}
	return c
}

// checkFlags returns an error for the first inherited flag that is set and has no effect on the
// command. A flag has an effect if followFlags recorded it for the command or an ancestor. The
// command's own flags with the same name are not checked.
func (a *pageClient) checkFlags(c *cobra.Command) error {
	for _, name := range append(accessFlags(), outputFlag, noHeadersFlag, namespaceFlag) {
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
	return nil
}

// groupCommand makes c a command that only has the subcommands, and returns it. It replaces c.Args
// and c.RunE. Without arguments it prints its help, and with an unknown subcommand it fails and
// suggests similar ones, if there are any.
func groupCommand(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if list := c.SuggestionsFor(args[0]); len(list) > 0 {
			return fmt.Errorf("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(list, " or "))
		}
		return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(commands...)
	return c
}

// pageClient reads pages of a control plane for the commands, and prints their answers. Its fields
// are the persistent flags and the environment.
type pageClient struct {
	controlPlaneAccess
	output, namespace string
	noHeaders         bool
	environment       Environment
}

// httpGet returns the body of the response to a GET request, or an error for a status of 400 or
// above. It takes at most timeout.
func httpGet(ctx context.Context, url string) ([]byte, error) {
	return httpDo(ctx, http.MethodGet, url, nil)
}

// httpDo sends an HTTP request and returns the body of the response. It returns an error with the
// body for a status of 400 or above. It takes at most timeout.
func httpDo(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	return sendRequest(ctx, &http.Client{Timeout: timeout}, method, url, body)
}

// sendRequest sends an HTTP request with a client and returns the body of the response, whatever
// its size. A status of 400 or above is an error with the body.
func sendRequest(ctx context.Context, client *http.Client, method, url string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
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
