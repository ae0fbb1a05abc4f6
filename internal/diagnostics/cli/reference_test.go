package cli

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite docs/PILOTCTL.md") //nolint:gochecknoglobals // a flag

// TestReference compares docs/PILOTCTL.md with the command tree.
func TestReference(t *testing.T) {
	const path = "../../../docs/PILOTCTL.md"
	outputs := recordedSessions(t)
	outputs["pilotctl explain"] += "\n" + flagSession(t)
	outputs["pilotctl metrics"] += "\n" + prometheusSession(t)
	for command, text := range map[string]string{
		"pilotctl diff":     diffSession(t),
		"pilotctl test":     testSession(t),
		"pilotctl analyze":  lintSession(t, "analyze", "web.yaml"),
		"pilotctl validate": lintSession(t, "validate", "-f", "web.yaml"),

		"pilotctl check-migration": migrationSession(t),
		"pilotctl compare":         compareSession(t),
		"pilotctl translate": sampleSession(t, "translate", "-f", "platform", "-f", "networking/destination-rule-all.yaml",
			"--proxy", "productpage-v1"),
		"pilotctl inject": sampleSession(t, "inject", "--offline", "-f", "kubernetes/client.yaml"),
		"pilotctl workload group create": sampleSession(t, "workload", "group", "create", "--name", "ratings-vm", "-n", "bookinfo",
			"--labels", "app=ratings", "--ports", "http=9080", "-s", "bookinfo-ratings"),
	} {
		outputs[command] = text
	}
	want := Reference(New(), outputs)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/PILOTCTL.md differs (-want +got; go test -update rewrites it):\n%s", diff)
	}
}

// recordedSessions returns the examples in the sessions that test/integration records on real programs,
// by the paths of commands. Of long outputs it returns the beginning.
func recordedSessions(t *testing.T) map[string]string {
	t.Helper()
	outputs := map[string]string{}
	for _, path := range []string{
		"pilotctl/testdata/reference.txtar", "pilotctl/testdata/kubernetes/reference.txtar",
		"adapter/testdata/reference.txtar", "laptop/testdata/reference.txtar", "vm/testdata/reference.txtar",
	} {
		archive, err := txtar.ParseFile("../../../test/integration/" + path)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "session" })
		if at < 0 {
			t.Fatalf("%s has no session", path)
		}
		addExamples(t, outputs, string(archive.Files[at].Data))
	}
	return outputs
}

// addExamples adds the commands of a session to outputs. A command of another program belongs to the
// command of pilotctl after it; programs that read files or pages belong to the one before.
func addExamples(t *testing.T, outputs map[string]string, session string) {
	t.Helper()
	before := "" // other programs before a command of pilotctl
	path := ""   // of the last command of pilotctl
	for _, text := range strings.Split("\n"+session, "\n$ ")[1:] {
		text = "$ " + strings.TrimRight(text, "\n") + "\n"
		line, _, _ := strings.Cut(text, "\n")
		words := strings.Fields(line)[1:]
		switch words[0] {
		case "tar", "cat", "curl":
			outputs[path] = beginning(outputs[path] + text)
		case "pilotctl":
			c, _, err := New().Find(words[1:])
			if err != nil {
				t.Fatal(err)
			}
			path = c.CommandPath()
			text = beginning(before + text)
			if before = ""; outputs[path] != "" {
				text = outputs[path] + "\n" + text
			}
			outputs[path] = text
		default:
			before += text
		}
	}
}

// maxExample is the number of lines of one command in docs/PILOTCTL.md.
const maxExample = 40

// TestCommandsHaveGroups finds each command of the root in one group, and no other name.
func TestCommandsHaveGroups(t *testing.T) {
	root := New()
	var want, got []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			want = append(want, c.Name())
		}
	}
	for _, g := range commandGroups() {
		got = append(got, g.commands...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the commands in groups differ from those of pilotctl (-want +got):\n%s", diff)
	}
}

// TestCommandsHaveExamples finds an output of each command in docs/PILOTCTL.md.
func TestCommandsHaveExamples(t *testing.T) {
	text, err := os.ReadFile("../../../docs/PILOTCTL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "\n## Commands\n")
	commands, _, _ = strings.Cut(commands, "\n## ")
	for _, section := range strings.Split(commands, "\n### ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		if !strings.Contains(section, "\nFor example:\n") {
			t.Errorf("%s has no example", name)
		}
	}
}

// beginning returns the first lines of an example.
func beginning(text string) string {
	if lines := strings.SplitAfter(text, "\n"); len(lines) > maxExample {
		return strings.Join(lines[:maxExample], "") + "...\n"
	}
	return text
}

// sampleSession returns the beginning of a run of a command beside the files of the sample.
func sampleSession(t *testing.T, args ...string) string {
	t.Helper()
	given := slices.Clone(args)
	for i, a := range args {
		if i > 0 && args[i-1] == "-f" {
			given[i] = bookinfo + a
		}
	}
	out, err := runCommand(t, given...)
	if err != nil {
		t.Fatal(err)
	}
	return beginning("$ pilotctl " + strings.Join(args, " ") + "\n" + strings.ReplaceAll(out, bookinfo, ""))
}

// flagSession returns the description of a response flag.
func flagSession(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetArgs([]string{"explain", "503,UF"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	return "$ pilotctl explain 503,UF\n" + out.String()
}

// diffSession returns a comparison with Bookinfo, of which v1 of reviews gets all requests, with its
// output.
func diffSession(t *testing.T) string {
	t.Helper()
	const samples = "../../../samples/bookinfo/"
	dir := t.TempDir()
	for _, path := range []string{
		"platform/reviews.yaml", "platform/productpage.yaml", "networking/destination-rule-all.yaml", "networking/virtual-service-all-v1.yaml",
	} {
		text, err := os.ReadFile(samples + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output, _, code := runDiff(t, "", "--from", dir, "-f", samples+"networking/virtual-service-reviews-90-10.yaml", "--proxy", "productpage-v1")
	if code != exitDifference {
		t.Errorf("diff of the samples: exit code %d", code)
	}
	return "$ pilotctl diff --from mesh -f virtual-service-reviews-90-10.yaml --proxy productpage-v1\n" + output
}

// testSession returns a run of the cases of the sample with a case that fails.
func testSession(t *testing.T) string {
	t.Helper()
	args := append([]string{"test", "calls/cases.yaml"}, bookinfoMesh("")...)
	out, err := runCommand(t, append([]string{"test", bookinfo + "calls/cases.yaml"}, bookinfoMesh(bookinfo)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return "$ cd samples/bookinfo\n$ pilotctl " + strings.Join(args, " ") + "\n" + out
}

// lintSession returns a run of analyze or validate on a file with two mistakes, with its output.
func lintSession(t *testing.T, args ...string) string {
	t.Helper()
	const web = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec:
  hosts: [web]
  http:
  - timeout: soon
    route: [{destination: {host: wbe}}]
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetErr(&out)
	given := slices.Clone(args)
	given[len(given)-1] = filepath.Join(dir, "web.yaml")
	c.SetArgs(given)
	err := c.Execute()
	if ExitCode(err) != exitProblems {
		t.Fatalf("pilotctl %s: %v", strings.Join(args, " "), err)
	}
	text := strings.ReplaceAll(out.String()+"pilotctl: "+err.Error()+"\n", dir+"/", "")
	return "$ cat web.yaml\n" + web + "$ pilotctl " + strings.Join(args, " ") + "\n" + text
}

// migrationSession returns a run of check-migration on a folder of an installation of istiod.
func migrationSession(t *testing.T) string {
	t.Helper()
	const path = "testdata/migration/istiod.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runCommand(t, "check-migration", "-f", path)
	if ExitCode(err) != exitProblems {
		t.Fatalf("pilotctl check-migration: %v", err)
	}
	out = strings.ReplaceAll(out+"pilotctl: "+err.Error()+"\n", path, "istiod.yaml")
	return "$ cat istiod.yaml\n" + string(text) + "$ pilotctl check-migration -f istiod.yaml\n" + out
}

// prometheusSession returns the metrics of a workload from a Prometheus.
func prometheusSession(t *testing.T) string {
	t.Helper()
	s := servePrometheus(t, func(q string) string {
		for part, value := range map[string]string{"5..": "0.8", "0.5,": "3.2", "0.9,": "9.6", "0.99,": "24.4"} {
			if strings.Contains(q, part) {
				return value
			}
		}
		return "42.5"
	})
	const command, address = "metrics reviews-v1.bookinfo --duration 5m --prometheus ", "http://127.0.0.1:9090"
	out, err := runCommand(t, strings.Fields(command+s.URL)...)
	if err != nil {
		t.Fatal(err)
	}
	return "$ pilotctl " + command + address + "\n" + out
}

// compareSession returns a comparison of two config dumps.
func compareSession(t *testing.T) string {
	t.Helper()
	const dir = "testdata/compare/"
	out, err := runCommand(t, "compare", dir+"istiod.json", dir+"meshpilot.json")
	if ExitCode(err) != exitDifference {
		t.Fatalf("pilotctl compare: %v", err)
	}
	out = strings.ReplaceAll(out, dir, "")
	return "$ pilotctl compare istiod.json meshpilot.json\n" + out + "pilotctl: " + err.Error() + "\n"
}

// TestAnalysisReference compares docs/ANALYSIS.md with the codes and the checks.
func TestAnalysisReference(t *testing.T) {
	const path = "../../../docs/ANALYSIS.md"
	cases, err := os.ReadFile("../../../test/conformance/analyzers/testdata/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	want := AnalysisReference(string(cases))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/ANALYSIS.md differs (-want +got; go test -update rewrites it):\n%s", diff)
	}
}

// TestEquivalentsExist finds every command of the table for users of istioctl in the command tree.
func TestEquivalentsExist(t *testing.T) {
	root := New()
	root.InitDefaultCompletionCmd()
	for _, e := range equivalents() {
		if e.pilotctl == "" {
			continue
		}
		c, rest, err := root.Find(strings.Fields(e.pilotctl))
		if err != nil || len(rest) > 0 || c.CommandPath() != "pilotctl "+e.pilotctl {
			t.Errorf("istioctl %s: there is no pilotctl %s (%v)", e.istioctl, e.pilotctl, err)
		}
	}
}
