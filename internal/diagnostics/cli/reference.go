package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
)

// equivalent is the command that takes the place of a command of istioctl.
type equivalent struct {
	istioctl string
	// pilotctl is the path of the command below pilotctl; "" if there is none.
	pilotctl string
	// note describes the difference, or what to use if there is no command.
	note string
}

// equivalents returns all commands of istioctl in alphabetical order, with the command of pilotctl
// that does the same, or "" and a note if there is none.
func equivalents() []equivalent {
	return []equivalent{
		{"admin log", "log", "flag `--ctrlz` names the port"},
		{"analyze", "analyze", "files, and the cluster with `--cluster`; `problems` shows the same of a running control plane"},
		{"bug-report", "bug-report", ""},
		{"completion", "completion", "`make install` installs it"},
		{"create-remote-secret", "create-remote-secret", "also with a token that expires; only with tokens"},
		{"dashboard controlz", "dashboard controlz", "this and the others print the URL"},
		{"dashboard envoy", "dashboard envoy", ""},
		{"dashboard grafana", "dashboard grafana", ""},
		{"dashboard istiod-debug", "dashboard istiod-debug", "`dashboard console` is the web console"},
		{"dashboard jaeger", "dashboard jaeger", ""},
		{"dashboard kiali", "dashboard kiali", ""},
		{"dashboard prometheus", "dashboard prometheus", ""},
		{"dashboard proxy", "dashboard envoy", ""},
		{"dashboard skywalking", "", "`kubectl port-forward`"},
		{"dashboard zipkin", "dashboard zipkin", ""},
		{"experimental authz check", "authz check",
			"`explain` with `--inbound` or `--principal` has the verdict on one call, with the rule"},
		{"experimental check-inject", "check-inject", ""},
		{"experimental config list", "", "[a file](#how-a-control-plane-is-reached) has the defaults of flags"},
		{"experimental describe pod", "describe pod", "`explain` follows one call"},
		{"experimental describe service", "describe service", ""},
		{"experimental envoy-stats", "dashboard envoy", "`/stats` there; `metrics` has the requests"},
		{"experimental injector list", "revision list", "`revision describe` and `check-inject` have details"},
		{"experimental internal-debug", "request", ""},
		{"experimental metrics", "metrics", "from the agent's metrics, or Prometheus with `--prometheus`"},
		{"experimental precheck", "check", "with `--pre`"},
		{"experimental proxy-status", "proxy-status", ""},
		{"experimental version", "version", ""},
		{"experimental wait", "wait", "of earlier releases of istioctl; also of files, and for a deletion"},
		{"experimental workload entry configure", "workload entry configure", ""},
		{"experimental workload group create", "workload group create", ""},
		{"install", "", "`helm install` or `make manifests`; there is no operator"},
		{"kube-inject", "inject", ""},
		{"manifest generate", "", "`make manifests`, or `helm template`"},
		{"manifest install", "", "`helm install`"},
		{"manifest translate", "", "there is no IstioOperator; `check-migration` reads Helm values"},
		{"proxy-config all", "proxy-config all", ""},
		{"proxy-config bootstrap", "proxy-config bootstrap", ""},
		{"proxy-config cluster", "proxy-config cluster", ""},
		{"proxy-config ecds", "proxy-config ecds", ""},
		{"proxy-config endpoint", "proxy-config endpoint", ""},
		{"proxy-config listener", "proxy-config listener", ""},
		{"proxy-config log", "proxy-config log", ""},
		{"proxy-config rootca-compare", "rootca-compare", ""},
		{"proxy-config route", "proxy-config route", ""},
		{"proxy-config secret", "proxy-config secret", "with `--envoy` for certificates of workloads"},
		{"proxy-status", "proxy-status", "also shows resources in quarantine; with a name it compares with Envoy"},
		{"remote-clusters", "remote-clusters", ""},
		{"tag generate", "tag generate",
			"prints the webhook configuration; the webhook that validates objects is that of the chart base"},
		{"tag list", "tag list", ""},
		{"tag remove", "tag remove", "refuses a tag in use instead of asking"},
		{"tag set", "tag set", ""},
		{"uninstall", "", "`helm uninstall`"},
		{"upgrade", "", "`helm upgrade`, [UPGRADE.md](UPGRADE.md)"},
		{"validate", "validate", ""},
		{"version", "version", "with `--remote` for the control plane and the proxies"},
		{"waypoint", "", "ambient mode is not supported"},
		{"ztunnel-config", "", "ambient mode is not supported"},
	}
}

// Reference returns the Markdown text of docs/PILOTCTL.md for the command tree of pilotctl. outputs
// has example sessions of commands, by their paths.
func Reference(root *cobra.Command, outputs map[string]string) string {
	var b strings.Builder
	b.WriteString(`# pilotctl

pilotctl shows what a control plane knows, what it has sent to proxies, and why. It finds mistakes in configuration and shows what a change
would do before it is made, and it runs a mesh on one machine.

` + "`make install`" + ` installs pilotctl with man pages, and with completion for bash, zsh and fish, which also completes the names of proxies,
services, objects, namespaces and contexts. States are colored on a terminal, unless ` + "`NO_COLOR`" + ` is set.

## Commands by task
`)
	writeTasks(&b, root)
	b.WriteString(referenceAccess)
	writeExitCodes(&b)
	b.WriteString("\n## Common flags\n\nA flag that has no effect on a command is an error.\n\n")
	command.WriteFlagTable(&b, root.PersistentFlags())
	b.WriteString("\n## Commands\n\nThe outputs in the examples are recorded by tests, with times, tokens and random ports replaced. `go test ./internal/diagnostics/cli -update`\nwrites this page.\n")
	writeCommands(&b, root, outputs)
	b.WriteString("\n## For users of istioctl\n\nReal istioctl works with this control plane too.\n\n| istioctl | pilotctl | |\n|---|---|---|\n")
	for _, e := range equivalents() {
		ours := "–"
		if e.pilotctl != "" {
			ours = "`pilotctl " + e.pilotctl + "`"
		}
		fmt.Fprintf(&b, "| `istioctl %s` | %s | %s |\n", e.istioctl, ours, e.note)
	}
	return b.String()
}

// referenceAccess is the section about the ways to a control plane.
const referenceAccess = `
## How a control plane is reached

The first of these that is set is used:

1. ` + "`--server`" + `: HTTP ports (8080 or 15014 of istiod), separated by commas. With one, that replica asks the others with
   the caller's credentials; ` + "`check`, `request` and `version`" + ` are about that replica alone. With several, each is asked.
2. ` + "`--xds-address`" + `: the xDS port with TLS (15012). The caller is identified by a Kubernetes token, a workload token or a client
   certificate, and sees what its identity may read: a workload, its namespace. ` + "`wait`, `diff` and `changes --watch`" + ` need HTTP; instead of ` + "`wait`" + `,
   repeat ` + "`why`" + `, which shows how many proxies have acknowledged an object. The other replicas do not accept that replica's question, and are named in a warning.
3. ` + "`--kubeconfig`, `KUBECONFIG` or `~/.kube/config`" + `: every running pod with the label app=istiod in ` + "`--istioNamespace`" + `, of ` + "`--revision`" + ` if that
   is set, by a port-forward of its own. This takes the permissions to list pods, and to get and create pods/portforward there.
4. 127.0.0.1:8080, as with ` + "`--server`" + `: a mesh of ` + "`pilotctl mesh up`" + `.

A replica that does not answer is named, and the answers of the others are shown.

Behind ` + "`kubectl port-forward`" + ` only one replica is reached: the others do not accept a caller of its machine, and answer 401 to it. They are named in
a warning. Use the kubeconfig instead.

The flags of this list, ` + "`--namespace` and `--output`" + ` have defaults in a file, under their names, like ` + "`istioNamespace: istio-system`" + `:
` + "`~/.config/pilotctl.yaml`, or `$XDG_CONFIG_HOME/pilotctl.yaml`, or the file that `PILOTCTL_CONFIG`" + ` names. An environment variable takes precedence over
the file, and the command line over both; its name is that of the flag: ` + "`PILOTCTL_SERVER`, `PILOTCTL_XDS_ADDRESS`, `PILOTCTL_ISTIO_NAMESPACE`" + `. A way to
the control plane that is on the command line replaces one in the file or the environment.

## Exit codes

| exit code | meaning |
|---|---|
`

// writeExitCodes writes the rows of the table of exit codes, ending with the exit codes of "run"
// and "mesh exec".
func writeExitCodes(b *strings.Builder) {
	for _, row := range []struct {
		code    int
		meaning string
	}{
		{0, "the command worked"},
		{exitFailure, "the command failed; standard error has the reason"},
		{exitDifference, fmt.Sprintf("`diff`, `compare`, `rootca-compare`: something differs; if `diff` or `compare` failed, the exit code is %d",
			exitDiffFailure)},
		{exitTimeout, "`wait`: the time is over"},
		{exitRefused, "`wait`: the version is invalid, or proxies reject it"},
		{exitCheckFailed, "`check`, `adapter test`, `workload doctor`: a check failed; `test`: a case failed; `check-inject`: no webhook injects the pod"},
		{exitProblems, "the command worked, and configuration objects have errors (`problems`, `analyze`, `validate`), as with istioctl analyze; " +
			"`check-migration` has findings"},
	} {
		fmt.Fprintf(b, "| %d | %s |\n", row.code, row.meaning)
	}
	fmt.Fprintf(b, "| that of the program | `run`, `mesh exec`; %d if the program could not be run in the mesh, %d if there is no such program |\n",
		exitRunFailed, exitNotFound)
}

// writeTasks writes a heading and a table of commands for each group. Commands with subcommands are
// replaced by these, and hidden ones are left out (eachCommand).
func writeTasks(b *strings.Builder, root *cobra.Command) {
	for _, g := range commandGroups() {
		fmt.Fprintf(b, "\n### %s\n\n| command | purpose |\n|---|---|\n", g.title)
		for _, name := range g.commands {
			eachCommand(findCommand(root, name), func(c *cobra.Command) {
				path := c.CommandPath()
				fmt.Fprintf(b, "| [`%s`](%s) | %s |\n", strings.TrimPrefix(path, root.Name()+" "), commandAnchor(path), c.Short)
			})
		}
	}
}

// commandAnchor returns the link to the section of a command.
func commandAnchor(path string) string { return "#" + strings.ReplaceAll(path, " ", "-") }

// eachCommand calls visit for c or, if c has subcommands, for all commands below it that have none,
// sorted by name at each level. Hidden commands are left out, with those below them. It does
// nothing for nil.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	if c == nil || c.Hidden {
		return
	}
	if !c.HasSubCommands() {
		visit(c)
		return
	}
	list := slices.Clone(c.Commands())
	slices.SortFunc(list, func(x, y *cobra.Command) int { return strings.Compare(x.Name(), y.Name()) })
	for _, sub := range list {
		eachCommand(sub, visit)
	}
}

// writeCommands writes a section for each command below root that has no subcommands and is not
// hidden, sorted by name. outputs has example sessions by the paths of commands.
func writeCommands(b *strings.Builder, root *cobra.Command, outputs map[string]string) {
	eachCommand(root, func(c *cobra.Command) {
		fmt.Fprintf(b, "\n### %s\n\n", c.CommandPath())
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "%s\n\n```\n%s\n```\n", strings.TrimSpace(text), strings.TrimSuffix(c.UseLine(), " [flags]"))
		if c.Example != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
		}
		if text := outputs[c.CommandPath()]; text != "" {
			fmt.Fprintf(b, "\nFor example:\n\n```\n%s```\n", text)
		}
		if c.LocalNonPersistentFlags().HasAvailableFlags() {
			b.WriteString("\n")
			command.WriteFlagTable(b, c.LocalNonPersistentFlags())
		}
	})
}
