package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/retired"
	"github.com/meshpilot/meshpilot/test/support/document"
)

// root is the folder of the repository.
const root = "../../.."

// sources are the names that the Go files of the repository declare.
type sources struct {
	// texts are whole strings outside tests, flags the names of flags, also of programs for tests.
	texts, flags map[string]bool
}

// define matches the functions of pflag and flag that define a flag.
var define = regexp.MustCompile(`^(String|StringSlice|StringArray|StringToString|Bool|Int|Int32|Int64|Uint|Uint16|Uint32|Float32|Float64|Duration|Text|Func|)(Var)?P?$`)

// binder is the function of internal/capture/iptables/command that defines its flags. The name is its fifth
// argument.
const binder = "bindValue"

// read parses every Go file of the repository.
func read(t *testing.T) sources {
	t.Helper()
	s := sources{texts: map[string]bool{}, flags: map[string]bool{}}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.add(file, !strings.HasSuffix(path, "_test.go"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]retired.Flag{retired.DiscoveryFlags(), retired.AgentFlags()} {
		for _, f := range list {
			s.flags[f.Name] = true
		}
	}
	if len(s.texts) < 1000 || len(s.flags) < 100 {
		t.Fatalf("%d strings and %d flags: the test is not effective", len(s.texts), len(s.flags))
	}
	return s
}

// add records the names of a file. Strings in tests are ignored, because a test may name something
// that does not exist.
func (s sources) add(file *ast.File, program bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, ok := literal(n); ok && program {
				s.texts[text] = true
				if key, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ","); key != "" {
					s.texts[key] = true // node metadata is named like variables
				}
			}
		case *ast.CallExpr:
			if name, ok := flagName(n); ok {
				s.flags[name] = true
			}
		}
		return true
	})
}

// flagName returns the name of the flag that a call defines.
func flagName(call *ast.CallExpr) (string, bool) {
	if f, ok := call.Fun.(*ast.Ident); ok && f.Name == binder && len(call.Args) > 4 {
		return literal(call.Args[4])
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !define.MatchString(f.Sel.Name) {
		return "", false
	}
	for _, a := range call.Args[:min(len(call.Args), 2)] {
		if text, ok := literal(a); ok {
			return text, true
		}
	}
	return "", false
}

func literal(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// documents returns the texts that users read, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, top := range []string{"README.md", "CONTRIBUTING.md", "docs", "samples"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, root+"/")] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 40 {
		t.Fatalf("%d documents: the test is not effective", len(all))
	}
	return all
}

// check reports each name that the pattern finds in the documents and known does not know, with the
// documents that have it.
func check(t *testing.T, pattern *regexp.Regexp, known func(name string) bool) {
	t.Helper()
	unknown := map[string][]string{}
	found := 0
	for path, text := range documents(t) {
		for name := range document.FindNames(text, pattern) {
			found++
			if !known(name) {
				unknown[name] = append(unknown[name], path)
			}
		}
	}
	if found < 20 {
		t.Fatalf("%d names in all documents: the test is not effective", found)
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		slices.Sort(unknown[name])
		t.Errorf("%s is not in the sources: %s", name, strings.Join(unknown[name], ", "))
	}
}

// TestPaths: every path of the repository that a document names in backquotes exists.
func TestPaths(t *testing.T) {
	check(t, regexp.MustCompile("`((?:cmd|hack|internal|manifests|samples|test)/[\\w./-]+)`"), func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil || strings.Contains(name, "_KIND.") // a pattern of CONTRIBUTING.md
	})
}

// TestFlags: every flag that a document names is one of a command here, or of another program that
// the document describes.
func TestFlags(t *testing.T) {
	s := read(t)
	check(t, regexp.MustCompile("(?:^|[\\s`(\\[])--([a-zA-Z][a-zA-Z0-9_-]*)"), func(name string) bool { return s.flags[name] || slices.Contains(others(), name) })
}

// others are flags of other programs that documents name, and flags that every command has.
func others() []string {
	return []string{
		"help",
		"create-namespace", "field-selector", "for", "ignore-not-found", "kube-context", "previous", "reuse-values", "tail", "type", "wait", // helm, kubectl
		"now", "preserve-digests", // systemctl, skopeo
		"bind", "directory", // python3 -m http.server
		"cacert", "max-time", "resolve", "retry", "retry-all-errors", "retry-connrefused", "retry-delay", // curl
		"build-arg", "isolation", "storage-driver", // docker, buildah
		"mode", // Envoy
	}
}

// TestVariables: every environment variable that a document names is read, or listed as not read.
func TestVariables(t *testing.T) {
	s := read(t)
	_, notRead, _ := strings.Cut(documents(t)["docs/ENVIRONMENT.md"], "## Not read")
	check(t, regexp.MustCompile("`((?:PILOT|MESHPILOT|ISTIO|CITADEL|ISTIOD|ENABLE|PROXY)_[A-Z0-9_]+)"), func(name string) bool {
		return s.texts[name] || strings.Contains(notRead, name) || slices.ContainsFunc(slices.Collect(maps.Keys(s.texts)), func(text string) bool {
			return strings.HasSuffix(text, "_") && strings.HasPrefix(name, text) // a family, ISTIO_META_
		})
	})
}

// TestMetrics: every metric that a document names is registered, or listed as one that there is
// not. None is both.
func TestMetrics(t *testing.T) {
	all := documents(t)
	registered, absent := registeredMetrics(t, all), absentMetrics(t, all)
	missing := func(name string) bool {
		return absent[name] || slices.ContainsFunc(slices.Collect(maps.Keys(absent)), func(a string) bool {
			family, ok := strings.CutSuffix(a, "*")
			return ok && strings.HasPrefix(name, family)
		})
	}
	for name := range registered {
		if missing(name) {
			t.Errorf("%s is registered, but docs/METRICS.md lists it as not implemented", name)
		}
	}
	pattern := regexp.MustCompile("`((?:pilot|meshpilot|citadel|istiod|galley|xds_cache|istio_agent|sidecar_injection|auto_registration|webhook_patch|istio_cni)_[a-z0-9_]+)")
	check(t, pattern, func(name string) bool { return registered[name] || missing(name) })
}

// registeredMetrics returns the metrics of the control plane, the agent and the CNI plugin by their
// documents, which internal/base/obs, internal/agent and cmd/istio-cni compare with what is
// registered.
func registeredMetrics(t *testing.T, all map[string]string) map[string]bool {
	t.Helper()
	line := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge|histogram) ")
	names := document.FindNames(all["docs/METRICS.md"], line)
	maps.Copy(names, document.FindNames(all["docs/METRICS-CNI.md"], line))
	for name := range document.FindNames(all["docs/METRICS-AGENT.md"], line) {
		names[name], names["istio_agent_"+name] = true, true // that document leaves the prefix out
	}
	if len(names) < 80 {
		t.Fatalf("%d metrics: the test is not effective", len(names))
	}
	return names
}

// absentMetrics returns the first column of the table of metrics that are not here.
func absentMetrics(t *testing.T, all map[string]string) map[string]bool {
	t.Helper()
	_, table, found := strings.Cut(all["docs/METRICS.md"], "## Istio's metrics that are not here")
	names := map[string]bool{}
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			maps.Copy(names, document.FindNames(cells[1], regexp.MustCompile("`([a-z0-9_]+\\*?)`")))
		}
	}
	if !found || len(names) < 5 {
		t.Fatalf("docs/METRICS.md lists %d metrics that are not here", len(names))
	}
	return names
}
