package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// analyzeFlags are the flags of analyze.
type analyzeFlags struct {
	access                                                      *controlPlaneAccess
	cluster, allNamespaces, listAnalyzers, color, ignoreUnknown bool
	namespace, output, explain                                  string
	meshConfig, meshNetworks                                    string
	failureThreshold, outputThreshold                           string
	suppress                                                    []string
}

const analyzeText = `analyze finds mistakes in files with objects, and in the objects of a cluster with --cluster, without a control plane or proxies.
Directories are read with all *.yaml, *.yml and *.json files below them, but not through links to directories; - is standard input. With
--cluster and files it shows the mistakes that the cluster would have after the files were applied. Stored objects of kinds that Istio
has retired are found as long as the definitions of the kinds are installed. Kinds that the user may not list are named on standard
error.

The codes are those of istioctl analyze where the meaning is the same, and MP codes elsewhere: docs/ANALYSIS.md lists them, and
--explain CODE explains one. The annotation galley.istio.io/analyze-suppress of an object has codes, separated by commas, that are not
reported for it; * is all.

The exit code is 79, as of istioctl analyze, if a message has at least the level of --failure-threshold.`

// analyzeCommand returns the command that analyzes files and, with --cluster, also the objects of
// the cluster (analyzeFlags.run). --namespace and --all-namespaces exclude each other.
func (a *pageClient) analyzeCommand() *cobra.Command {
	f := &analyzeFlags{access: &a.controlPlaneAccess}
	c := &cobra.Command{
		Use: "analyze [FILE|DIRECTORY]...", Short: "Find mistakes in files or in a cluster, without a control plane",
		Long: analyzeText,
		Example: "  pilotctl analyze my-mesh/\n" +
			"  pilotctl analyze web.yaml --suppress 'IST0102=Namespace *'\n" +
			"  pilotctl analyze -o sarif my-mesh/ > analyze.sarif\n" +
			"  pilotctl analyze --cluster --kubeconfig ~/.kube/config -n shop\n" +
			"  pilotctl analyze --explain IST0173",
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	fs := c.Flags()
	fs.BoolVarP(&f.cluster, "cluster", "k", false, "also analyze the objects of the cluster")
	fs.BoolVar(&f.cluster, "use-kube", false, "same as --cluster, as in istioctl")
	fs.StringVarP(&f.namespace, "namespace", "n", "", "only report objects of this namespace, and objects without one")
	fs.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false,
		"report objects of all namespaces, which is the default")
	fs.BoolP("recursive", "R", true, "accepted for scripts: directories are always read recursively, as in istioctl")
	fs.StringVarP(&f.output, "output", "o", "text", "text, json, yaml, sarif or github (annotations of GitHub Actions)")
	fs.StringVar(&f.failureThreshold, "failure-threshold", "Error",
		"lowest level for which the command fails: Info, Warning or Error")
	fs.StringVar(&f.outputThreshold, "output-threshold", "Info", "lowest level that is shown: Info, Warning or Error")
	fs.StringArrayVarP(&f.suppress, "suppress", "S", nil,
		"do not report a code for objects: CODE=Kind name.namespace, with * as wildcard")
	fs.StringVar(&f.meshConfig, "meshConfigFile", "", "file with the mesh configuration")
	fs.StringVar(&f.meshNetworks, "meshNetworksFile", "", "file with the mesh networks")
	fs.BoolVar(&f.ignoreUnknown, "ignore-unknown", false, "do not report documents that are not objects")
	fs.BoolVarP(&f.listAnalyzers, "list-analyzers", "L", false, "list the analyses")
	fs.StringVar(&f.explain, "explain", "", "explain a code")
	fs.BoolVar(&f.color, "color", false, "color the levels in text output")
	c.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	return c
}

// run executes the analyze command. With --list-analyzers or --explain it prints the analyzers or a
// code, and analyzes nothing. Otherwise it prints the findings that reach the output threshold and
// are not hidden by --namespace or --ignore-unknown. It returns an *AnalysisError if one of these
// reaches the failure threshold, and another error for invalid flags or unreadable input.
func (f *analyzeFlags) run(c *cobra.Command, args []string) error {
	switch {
	case f.listAnalyzers:
		return f.printAnalyzers(c)
	case f.explain != "":
		return explainCode(c, f.explain)
	}
	o, failure, output, err := f.options(c, args)
	if err != nil {
		return err
	}
	result, err := lint.Analyze(o)
	if err != nil {
		return err
	}
	result.Findings = slices.DeleteFunc(result.Findings,
		func(x lint.Finding) bool { return f.isHidden(x) || !x.Level.AtLeast(output) })
	if err := writeFindings(c, f.output, f.color, result.Findings); err != nil {
		return err
	}
	return analysisError(c, f.output, result, failure, analyzed(args, f.cluster))
}

// options returns the inputs of the analysis and the thresholds of failure and of output. The
// inputs are the files of args, objects of the API server with --cluster, suppressions, and the
// files of mesh configuration and networks. It returns an error for an invalid flag, for an
// unreadable file or cluster, or if there is nothing to analyze.
func (f *analyzeFlags) options(c *cobra.Command, args []string) (o lint.Options, failure, output code.Level,
	err error) {
	if failure, err = parseLevel("failure-threshold", f.failureThreshold); err != nil {
		return o, "", "", err
	}
	if output, err = parseLevel("output-threshold", f.outputThreshold); err != nil {
		return o, "", "", err
	}
	if !slices.Contains(findingFormats(), f.output) {
		return o, "", "", fmt.Errorf("--output %q: want %s", f.output, strings.Join(findingFormats(), ", "))
	}
	for _, text := range f.suppress {
		s, err := lint.ParseSuppression(text)
		if err != nil {
			return o, "", "", fmt.Errorf("--suppress: %w", err)
		}
		o.Suppressions = append(o.Suppressions, s)
	}
	if len(args) == 0 && !f.cluster {
		return o, "", "", fmt.Errorf("nothing to analyze: name files or directories, or set --cluster")
	}
	if o.Files, err = readManifests(c, args); err != nil {
		return o, "", "", err
	}
	if f.cluster {
		live, err := readCluster(c.Context(), f.access.options(), c.ErrOrStderr())
		if err != nil {
			return o, "", "", fmt.Errorf("read the cluster: %w", err)
		}
		o.Cluster = live
	}
	for path, file := range map[string]*lint.File{f.meshConfig: &o.MeshConfig, f.meshNetworks: &o.MeshNetworks} {
		if path == "" {
			continue
		}
		if *file, err = readManifest(c, path); err != nil {
			return o, "", "", err
		}
	}
	o.Now = time.Now()
	return o, failure, output, nil
}

// isHidden reports whether a finding is not shown because of --namespace or --ignore-unknown.
// --namespace does not hide findings without a namespace; a Namespace belongs to itself.
// --ignore-unknown hides schema errors of objects without a name.
func (f *analyzeFlags) isHidden(x lint.Finding) bool {
	namespace := x.Key.Namespace
	if x.Key.Kind == api.Namespace {
		namespace = x.Key.Name
	}
	if f.namespace != "" && namespace != "" && namespace != f.namespace {
		return true
	}
	return f.ignoreUnknown && x.Code == code.SchemaValidationError && x.Key.Name == ""
}

// parseLevel returns the level that text names, ignoring case. For an unknown level it returns an
// error that names the flag.
func parseLevel(flag, text string) (code.Level, error) {
	for _, l := range code.Levels() {
		if strings.EqualFold(string(l), text) {
			return l, nil
		}
	}
	return "", fmt.Errorf("--%s %q: want Info, Warning or Error", flag, text)
}

// analyzed returns the names of the analyzed files, directories and cluster, joined by commas, for
// messages.
func analyzed(args []string, cluster bool) string {
	if cluster {
		args = append(slices.Clone(args), "the cluster")
	}
	return strings.Join(args, ", ")
}

// printAnalyzers prints the names and descriptions of the analyses.
func (f *analyzeFlags) printAnalyzers(c *cobra.Command) error {
	var rows [][]string
	for _, x := range lint.Checks() {
		rows = append(rows, []string{x.Name, x.Description})
	}
	return new(pageClient).printTable(c.OutOrStdout(), answer{header: "NAME\tDESCRIPTION", rows: rows})
}

// explainCode prints the name, level, meaning and advice of a code, ignoring case. It returns an
// error if there is no such code.
func explainCode(c *cobra.Command, text string) error {
	e, ok := code.Find(code.Code(strings.ToUpper(text)))
	if !ok {
		return fmt.Errorf("--explain %q: there is no such code; docs/ANALYSIS.md lists all codes", text)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s %s (%s)\n\n%s\n\nWhat to do: %s\n", e.Code, e.Name, e.Level, e.Meaning, e.Advice)
	return nil
}
