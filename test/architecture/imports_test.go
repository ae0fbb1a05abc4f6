package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	module  = "github.com/meshpilot/meshpilot/"
	modules = module + "internal/"
	// maxFolders is how many folders internal/ may have, so that its listing shows the architecture.
	maxFolders = 12
)

// importTable is testdata/imports.txt: the permitted imports by package, relative to internal/.
type importTable map[string][]string

// unit returns the package or folder of the table that a package belongs to, or "".
func (i importTable) unit(pkg string) string {
	for p := pkg; ; {
		if _, ok := i[p]; ok {
			return p
		}
		slash := strings.LastIndexByte(p, '/')
		if slash < 0 {
			return ""
		}
		p = p[:slash]
	}
}

// allows reports whether a package of one unit may import a package of another.
func (i importTable) allows(from, to string) bool {
	always := folder(to) == "model" && folder(from) != "model" && folder(from) != "base"
	return from == to || always || slices.Contains(i[from], "*") || slices.Contains(i[from], to)
}

// folder returns the folder of internal/ that a package is in.
func folder(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

// readImportTable reads the table. Indented lines have further imports of the package above them.
func readImportTable(t *testing.T) importTable {
	t.Helper()
	text, err := os.ReadFile("testdata/imports.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := importTable{}
	last := ""
	for line := range strings.Lines(string(text)) {
		indented := strings.HasPrefix(line, " ")
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if indented && last != "" {
			table[last] = append(table[last], strings.Fields(line)...)
			continue
		}
		pkg, imports, ok := strings.Cut(line, ":")
		if _, twice := table[pkg]; !ok || twice {
			t.Fatalf("imports.txt: %q is not PACKAGE: IMPORTS, or has a line already", line)
		}
		table[pkg], last = strings.Fields(imports), pkg
	}
	return table
}

// TestImportTable checks that every import between packages of internal/ is permitted by
// testdata/imports.txt, and that every permission there is used.
func TestImportTable(t *testing.T) {
	table := readImportTable(t)
	used := map[[2]string]bool{}
	for _, p := range listInternal(t) {
		from := table.unit(p.name)
		if from == "" {
			t.Errorf("internal/%s has no line in imports.txt", p.name)
		}
		for _, i := range p.internal {
			to := table.unit(i)
			used[[2]string{from, to}] = true
			if !table.allows(from, to) {
				t.Errorf("internal/%s imports internal/%s, which the line %q of imports.txt does not allow", p.name, i, from)
			}
		}
	}
	for from, imports := range table {
		for _, to := range imports {
			if to != "*" && !used[[2]string{from, to}] {
				t.Errorf("imports.txt: %s does not import %s", from, to)
			}
		}
	}
}

// TestFoldersImportOneWay checks that the folders of internal/ are few, that each explains itself,
// and that docs/ARCHITECTURE.md lists them in an order in which each imports only folders before it.
func TestFoldersImportOneWay(t *testing.T) {
	documented := documentedFolders(t)
	actual := map[string][]string{}
	for _, p := range listInternal(t) {
		f := folder(p.name)
		actual[f] = append(actual[f], p.internal...)
	}
	if len(actual) > maxFolders {
		t.Errorf("internal/ has %d folders, more than %d", len(actual), maxFolders)
	}
	for name := range actual {
		if _, err := os.Stat("../../internal/" + name + "/doc.go"); err != nil {
			t.Errorf("internal/%s has no package comment: %v", name, err)
		}
		if !slices.Contains(documented, name) {
			t.Errorf("the table of docs/ARCHITECTURE.md lacks internal/%s", name)
		}
	}
	for at, name := range documented {
		if actual[name] == nil {
			t.Errorf("docs/ARCHITECTURE.md lists internal/%s, which does not exist", name)
		}
		for _, i := range actual[name] {
			if !slices.Contains(documented[:at+1], folder(i)) {
				t.Errorf("internal/%s imports internal/%s, which docs/ARCHITECTURE.md lists after it", name, i)
			}
		}
	}
}

// TestPackagesAreDocumented checks that the tables of docs/ARCHITECTURE.md name each package of
// internal/, by its path or by its last element.
func TestPackagesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for i, part := range strings.Split(line, "`") {
			if i%2 == 1 { // it is quoted
				for _, name := range strings.FieldsFunc(part, func(r rune) bool { return strings.ContainsRune("/{},", r) }) {
					named[name] = true
				}
			}
		}
	}
	for _, p := range listInternal(t) {
		if !named[path.Base(p.name)] {
			t.Errorf("no table of docs/ARCHITECTURE.md names internal/%s", p.name)
		}
	}
}

// documentedFolders returns the first column of the table of folders in docs/ARCHITECTURE.md.
func documentedFolders(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| folder of `internal` |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(rest, " |") {
			names = append(names, name)
		}
	}
	if len(names) < 5 {
		t.Fatalf("docs/ARCHITECTURE.md has a table of %d folders", len(names))
	}
	return names
}

// TestIstioIsNotImported checks that no code of Istio is linked: only its API is.
func TestIstioIsNotImported(t *testing.T) {
	for _, p := range list(t) {
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "istio.io/istio") {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
}

// TestPurePackages checks that pure packages do no I/O, read no clock and do not import
// connections.
func TestPurePackages(t *testing.T) {
	never := map[string][]string{
		"snapshot":       {"net/http", "os", "google.golang.org/grpc"},
		"translate":      {"net/http", "os", "google.golang.org/grpc"},
		"xds/stream":     {"time", "net/http", "os", "google.golang.org/grpc"},
		"xds/quarantine": {"sync", "net/http", "os", "google.golang.org/grpc"},
		"xds/rollout": {
			"context", "log/slog", "sync", "sync/atomic", "net/http", "os", "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/",
		},
		"model/mesh":          {"os", "sync", "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
		"diagnostics/explain": {"os", "sync", "google.golang.org/grpc"},
		"model/config":        {"os", "google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
		"xds/push":            {"google.golang.org/grpc", "github.com/envoyproxy/go-control-plane/"},
	}
	for _, p := range listInternal(t) {
		if strings.HasSuffix(p.name, "test") { // made for tests, as pushtest is
			continue
		}
		for pure, bad := range never {
			if p.name != pure && !strings.HasPrefix(p.name, pure+"/") {
				continue
			}
			for _, i := range p.imports {
				if slices.ContainsFunc(bad, func(b string) bool { return i == b || strings.HasSuffix(b, "/") && strings.HasPrefix(i, b) }) {
					t.Errorf("internal/%s imports %s, which internal/%s must not", p.name, i, pure)
				}
			}
		}
	}
}

// internalPackage is a package of internal/, with paths relative to it.
type internalPackage struct {
	name     string
	imports  []string // all
	internal []string // those of internal/, by their relative paths
}

func listInternal(t *testing.T) (packages []internalPackage) {
	t.Helper()
	for _, p := range list(t) {
		name, ok := strings.CutPrefix(p.ImportPath, modules)
		if !ok {
			continue
		}
		one := internalPackage{name: name, imports: p.Imports}
		for _, i := range p.Imports {
			if to, ours := strings.CutPrefix(i, modules); ours {
				one.internal = append(one.internal, to)
			}
		}
		packages = append(packages, one)
	}
	if len(packages) < 100 {
		t.Fatalf("go list returned %d packages of internal/: the test is not effective", len(packages))
	}
	return packages
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestWiringStaysSmall checks that discovery, which only wires parts together, has fewer than 1,250
// lines besides comments: computations belong in the package of their subject.
func TestWiringStaysSmall(t *testing.T) {
	const limit = 1250
	lines := 0
	for _, f := range shipped(t) {
		if path.Dir(f) != "internal/discovery" {
			continue
		}
		text, err := os.ReadFile("../../" + f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
				lines++
			}
		}
	}
	if lines == 0 || lines >= limit {
		t.Errorf("internal/discovery has %d lines besides comments, want fewer than %d", lines, limit)
	}
}
