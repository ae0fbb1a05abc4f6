package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// testFlagValues contains the flags of the command test.
type testFlagValues struct {
	*pageClient
	files                   []string
	meshConfig, run, format string
	verbose                 bool
}

const testText = `test evaluates calls on the configuration that proxies would have, and compares the results with what a file expects: which
workload answers, with which status, and whether access policies allow the call. No request is sent.

With -f, the mesh is that of the manifests of a file or directory: the objects as they would be applied, with Pods, or Deployments,
StatefulSets and DaemonSets, of which each has one pod here. Without -f, the calls are explained by a running control plane, with the
configuration that its proxies have.

A file is a YAML list of cases, each usually one line:

  - {name: users see v1, from: productpage-v1, call: GET http://reviews:9080/, expect: {to: reviews-v1}}
  - {name: a canary, from: productpage-v1, call: GET http://reviews:9080/, expect: {to: {reviews-v1: 90, reviews-v3: 10}}}
  - {name: only readers, from: ratings-v1, call: DELETE http://reviews:9080/, expect: deny by none}

A call has from (the calling workload, NAME or NAME.NAMESPACE) or into (a workload or gateway that is called from outside, as the
identity in as, if any), and call (METHOD URL) or send (bytes, silence, or tls NAME) with to (host:port). Further fields are host,
headers, protocol (h2c, http/1.0), to, via, absolute, claims, authorizer and address.

The field expect is a verdict (allow, deny, unauthenticated, bad or closed, with the rule: deny by NAMESPACE/POLICY[RULE], deny by
none), or has any of to, status, statuses, cluster, verdict, sees (headers of the request at the workload), gets (headers of the
response), body, ends, atLeast (the delay), mirrored, and by (a text that the explanation contains, such as an object and its rule).

The exit code is 5 if a case failed.`

// testCommand returns the command that tests routing and access policies with the cases in files,
// on manifests or at a running control plane (testFlagValues.runFiles).
func (a *pageClient) testCommand() *cobra.Command {
	f := &testFlagValues{pageClient: a}
	c := &cobra.Command{
		Use: "test FILE...", Short: "Test routes and access policies, without sending requests", Long: testText,
		Args: cobra.MinimumNArgs(1),
		Example: `  pilotctl test cases.yaml -f my-mesh/
  pilotctl test cases.yaml -f my-mesh/ -o junit > test.xml
  pilotctl test cases.yaml --kubeconfig ~/.kube/config`,
		RunE: func(c *cobra.Command, args []string) error { return f.runFiles(c, args) },
	}
	fs := c.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil,
		"file or directory with manifests of the mesh, may be repeated; - is the standard input")
	fs.StringVar(&f.meshConfig, "meshConfig", "", "file with the mesh configuration, with -f")
	fs.StringVar(&f.run, "run", "", "only the cases whose name contains this text")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show the path of passed calls too")
	fs.StringVarP(&f.format, "output", "o", "text", "text, json, yaml or junit")
	return c
}

// TestError is the error of a command whose cases have failed.
type TestError struct{ Failed, All int }

// Error returns the number of failed cases.
func (e *TestError) Error() string { return fmt.Sprintf("%d of %d cases failed", e.Failed, e.All) }

// runFiles evaluates the cases of all files whose name contains --run, and prints the results. It
// returns a *TestError if one failed. Before it prints anything, it returns another error for an
// unknown format, an invalid file, or if no case is left.
func (f *testFlagValues) runFiles(c *cobra.Command, paths []string) error {
	switch f.format {
	case "text", jsonFormat, yamlFormat, junitFormat:
	default:
		return fmt.Errorf("--output %q: want text, json, yaml or junit", f.format)
	}
	evaluate, err := f.evaluator(c)
	if err != nil {
		return err
	}
	var results []testResult
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		cases, err := calltest.ParseCases(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, one := range cases {
			if strings.Contains(one.Name, f.run) {
				results = append(results, testResult{path, evaluate(one)})
			}
		}
	}
	if len(results) == 0 {
		return fmt.Errorf("no case in %s", strings.Join(paths, ", "))
	}
	if err := f.print(c, results); err != nil {
		return err
	}
	if n := countFailed(results); n > 0 {
		return &TestError{n, len(results)}
	}
	return nil
}

// testResult is the result of a case, with the file of the case.
type testResult struct {
	file string
	*calltest.Result
}

// countFailed returns the number of results that have not passed.
func countFailed(results []testResult) (n int) {
	for _, r := range results {
		if !r.Passed() {
			n++
		}
	}
	return n
}

// evaluator returns the function that evaluates a case: on the manifests of --filename, or else at
// the control plane. It returns an error if --meshConfig is set without --filename. The manifests
// are read once.
func (f *testFlagValues) evaluator(c *cobra.Command) (func(*calltest.Case) *calltest.Result, error) {
	if len(f.files) == 0 {
		if f.meshConfig != "" {
			return nil, fmt.Errorf("--meshConfig has an effect with --filename only")
		}
		return f.liveEvaluator(c)
	}
	m, err := f.readMesh(c)
	if err != nil {
		return nil, err
	}
	return m.Run, nil
}

// readMesh returns the mesh of --filename and --meshConfig. It returns an error if an object is
// invalid: the control plane would keep its last version, which no file has. An invalid mesh
// configuration is an error too.
func (f *testFlagValues) readMesh(c *cobra.Command) (*calltest.Mesh, error) {
	objects, err := readRunning(c, f.files)
	if err != nil {
		return nil, err
	}
	meshConfig, err := readMeshConfig(c, f.meshConfig)
	if err != nil {
		return nil, err
	}
	return calltest.NewMesh(objects, meshConfig)
}

// readRunning returns the objects of files and directories, with pods for the templates of
// workloads. "-" is standard input. If objects are invalid, it returns an error about one of them.
func readRunning(c *cobra.Command, paths []string) (*offline.Objects, error) {
	objects, err := offline.ReadRunning(paths, c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("--filename: %w", err)
	}
	for k := range objects.Broken {
		for _, p := range objects.Problems {
			if p.Key == k {
				return nil, fmt.Errorf("--filename: %v", p)
			}
		}
	}
	return objects, nil
}

// print writes the results in the format of --output. As text, failed cases are followed by their
// differences and their path, with --verbose all cases by their path. The last line has the numbers
// of passed and failed cases. Failed cases are no error here.
func (f *testFlagValues) print(c *cobra.Command, results []testResult) error {
	w := c.OutOrStdout()
	switch f.format {
	case junitFormat:
		return writeTestJUnit(w, results)
	case jsonFormat, yamlFormat:
		return f.printJSON(c, results)
	}
	for _, r := range results {
		mark, color := "√", green
		if !r.Passed() {
			mark, color = "×", red
		}
		fmt.Fprintf(w, "%s %s\n", f.inColor(mark, color), r.Case.Name)
		for _, line := range r.lines() {
			fmt.Fprintf(w, "    %s\n", line)
		}
		if r.Path != nil && (f.verbose || !r.Passed()) {
			for line := range strings.Lines(r.Path.String()) {
				fmt.Fprintf(w, "      %s", line)
			}
		}
	}
	failed := countFailed(results)
	_, err := fmt.Fprintf(w, "\n%d passed, %d failed\n", len(results)-failed, failed)
	return err
}

// lines returns the error of the case, or its differences, or nil if it has passed.
func (r testResult) lines() []string {
	if r.Err != nil {
		return []string{r.Err.Error()}
	}
	return r.Differences
}

// jsonResult is the result of a case in JSON.
type jsonResult struct {
	File        string               `json:"file"`
	Name        string               `json:"name"`
	Passed      bool                 `json:"passed"`
	Error       string               `json:"error,omitempty"`
	Differences calltest.Differences `json:"differences,omitempty"`
	Path        *explain.Path        `json:"path,omitempty"`
}

// printJSON writes the results as a list, in JSON or YAML. It sets f.output to the format of the
// command.
func (f *testFlagValues) printJSON(c *cobra.Command, results []testResult) error {
	list := make([]jsonResult, len(results))
	for i, r := range results {
		list[i] = jsonResult{File: r.file, Name: r.Case.Name, Passed: r.Passed(), Differences: r.Differences,
			Path: r.Path}
		if r.Err != nil {
			list[i].Error = r.Err.Error()
		}
	}
	f.output = f.format
	return f.printAnswer(c, answer{whole: list})
}
