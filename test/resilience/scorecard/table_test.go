package scorecard_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/resilience/scorecard"
)

const root = "../../.."

// TestTable checks that the table has the 43 checks in order, each with what it requires, and that
// a check without tests or with a smaller size says so.
func TestTable(t *testing.T) {
	checks := scorecard.Checks()
	if len(checks) != 43 {
		t.Errorf("%d checks, want 43", len(checks))
	}
	for i, c := range checks {
		if c.Number != i+1 || c.Title == "" || c.Requirement == "" {
			t.Errorf("check %d at place %d: title %q, requirement %q", c.Number, i+1, c.Title, c.Requirement)
		}
	}
}

// TestTestsExist checks that each test of the table exists and declares its check: somewhere in the
// files of its package scorecard.Check is called with this number.
func TestTestsExist(t *testing.T) {
	packages := map[string]*declarations{}
	for _, c := range scorecard.Checks() {
		for _, test := range c.Tests {
			if packages[test.Package] == nil {
				packages[test.Package] = read(t, test.Package)
			}
			d := packages[test.Package]
			if !d.functions[test.Name] {
				t.Errorf("check %d: there is no %s in %s", c.Number, test.Name, test.Package)
			}
			if !d.numbers[c.Number] {
				t.Errorf("check %d: no test of %s declares it", c.Number, test.Package)
			}
		}
	}
}

// TestShortFormsAreEveryday checks that most checks with tests run in `make test`: at most a few
// are heavy.
func TestShortFormsAreEveryday(t *testing.T) {
	const heavyAtMost = 6
	heavy, everyday := 0, 0
	packages := map[string]*declarations{}
	for _, c := range scorecard.Checks() {
		for _, test := range c.Tests {
			if packages[test.Package] == nil {
				packages[test.Package] = read(t, test.Package)
			}
			if packages[test.Package].heavy[test.Name] {
				heavy++
			} else {
				everyday++
			}
		}
	}
	if heavy > heavyAtMost || everyday < 40 {
		t.Errorf("%d tests are left out of `make test`, want at most %d; %d run", heavy, heavyAtMost, everyday)
	}
}

// declarations are what the tests of a package say of checks.
type declarations struct {
	functions, heavy map[string]bool
	numbers          map[int]bool
}

func read(t *testing.T, dir string) *declarations {
	t.Helper()
	d := &declarations{functions: map[string]bool{}, heavy: map[string]bool{}, numbers: map[int]bool{}}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range f.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil {
				d.function(function)
			}
		}
	}
	return d
}

func (d *declarations) function(function *ast.FuncDecl) {
	d.functions[function.Name.Name] = true
	usesScorecard := false
	ast.Inspect(function, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "scorecard" {
				usesScorecard = usesScorecard || s.Sel.Name == "Check"
				if s.Sel.Name == "Heavy" {
					d.heavy[function.Name.Name] = true
				}
			}
		}
		return true
	})
	if !usesScorecard {
		return
	}
	// The number may come from a table in the same function, so every small number in it counts.
	ast.Inspect(function, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.INT {
			if number, err := strconv.Atoi(literal.Value); err == nil {
				d.numbers[number] = true
			}
		}
		return true
	})
}

// TestDocument checks that docs/SCORECARD.md is what Render makes of its own rows and of the table,
// and that it has a row for each check.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/SCORECARD.md"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := scorecard.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range scorecard.Checks() {
		if _, ok := document[c.Number]; !ok {
			t.Errorf("there is no row for check %d", c.Number)
		}
	}
	if got := document.Render(scorecard.Checks()); got != string(text) {
		t.Errorf("docs/SCORECARD.md is not what the table makes of it: `go run ./test/resilience/scorecard/cmd/scorecard --render` writes it again%s", firstDifference(got, string(text)))
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("\nline %d, want:\n%s\ngot:\n%s", i+1, a[i], b[i])
		}
	}
	return ""
}
