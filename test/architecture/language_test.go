package architecture

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/language.txt") //nolint:gochecknoglobals // a flag

// oblique matches phrases in comments that hide the subject or the mechanism. CONTRIBUTING.md has the rule.
var oblique = regexp.MustCompile(`(?i)\b(gives|says (that|whether|of|which|what)|(is|are) told|tells|nobody|somebody|whoever|` +
	`what is so|anew|for ever|not any more|has (it|them) (done|made)|that it is|with one another|those (that|who)|stands? for itself)\b`)

// vagueVerbs are names of methods that do not say what they change.
var vagueVerbs = []string{"take", "put", "tell", "say", "hold", "keep", "note", "give", "gone", "look", "told", "said", "got", "rouse"}

// testSuffix follows the package in testdata/language.txt for its tests.
const testSuffix = ":tests"

// wording is the number of findings in one package.
type wording struct{ phrases, methods int }

// TestLanguage keeps oblique phrases in comments, and methods with vague names, from spreading: the
// number in each package must be that of testdata/language.txt, and -update only lowers it. A new
// package has none. Tests beside shipped code are counted apart from it.
func TestLanguage(t *testing.T) {
	const file = "testdata/language.txt"
	recorded := readWording(t, file)
	found := map[string]wording{}
	for _, f := range slices.Concat(shipped(t), testCode(t)) {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, "../../"+f, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		w := wordingOf(tree)
		pkg := path.Dir(f)
		if strings.HasSuffix(f, "_test.go") {
			pkg += testSuffix
		}
		found[pkg] = wording{found[pkg].phrases + w.phrases, found[pkg].methods + w.methods}
	}
	for pkg, w := range found {
		limit := recorded[pkg]
		if w.phrases > limit.phrases || w.methods > limit.methods {
			t.Errorf("%s: %d oblique phrases and %d vague method names, %d and %d are recorded: use plain words (CONTRIBUTING.md, Rules)",
				pkg, w.phrases, w.methods, limit.phrases, limit.methods)
		} else if w != limit && !*update {
			t.Errorf("%s: fewer findings than recorded: run go test ./test/architecture -run TestLanguage -update", pkg)
		}
	}
	for pkg := range recorded {
		if _, ok := found[pkg]; !ok && !*update {
			t.Errorf("%s has recorded findings and no sources: run with -update", pkg)
		}
	}
	if *update && !t.Failed() {
		writeWording(t, file, found)
	}
}

func wordingOf(tree *ast.File) (w wording) {
	for _, group := range tree.Comments {
		w.phrases += len(oblique.FindAllString(group.Text(), -1))
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && slices.Contains(vagueVerbs, f.Name.Name) {
			w.methods++
		}
	}
	return w
}

func readWording(t *testing.T, file string) map[string]wording {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]wording{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var pkg string
		var w wording
		if _, err := fmt.Sscan(line, &pkg, &w.phrases, &w.methods); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		recorded[pkg] = w
	}
	return recorded
}

func writeWording(t *testing.T, file string, found map[string]wording) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Package, oblique phrases in comments, methods with vague names. Packages without a line have none.\n")
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		if w := found[pkg]; w != (wording{}) {
			fmt.Fprintf(&b, "%s %d %d\n", pkg, w.phrases, w.methods)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
