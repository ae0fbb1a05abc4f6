package analyzers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// gridCase is one case of Istio's table: inputs, and the messages that one analyzer has for them.
type gridCase struct {
	name, analyzer, meshConfig, meshNetworks string
	files                                    []string
	expected                                 []expectation
}

// expectation is a message: the name of its type, and its object as "Kind namespace/name".
type expectation struct{ message, object string }

// readGrid parses the variable testGrid in analyzers_test.go below dir.
func readGrid(t *testing.T, dir string) []gridCase {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "analyzers_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cases []gridCase
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "testGrid" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			cases = append(cases, newCase(t, e.(*ast.CompositeLit)))
		}
		return false
	})
	if len(cases) == 0 {
		t.Fatal("no cases in testGrid")
	}
	return cases
}

func newCase(t *testing.T, literal *ast.CompositeLit) gridCase {
	t.Helper()
	var c gridCase
	for _, e := range literal.Elts {
		pair := e.(*ast.KeyValueExpr)
		switch pair.Key.(*ast.Ident).Name {
		case "name":
			c.name = text(t, pair.Value)
		case "meshConfigFile":
			c.meshConfig = text(t, pair.Value)
		case "meshNetworksFile":
			c.meshNetworks = text(t, pair.Value)
		case "inputFiles":
			for _, f := range pair.Value.(*ast.CompositeLit).Elts {
				c.files = append(c.files, text(t, f))
			}
		case "analyzer":
			var b strings.Builder
			if err := printer.Fprint(&b, token.NewFileSet(), pair.Value); err != nil {
				t.Fatal(err)
			}
			c.analyzer = b.String()
		case "expected":
			for _, m := range pair.Value.(*ast.CompositeLit).Elts {
				parts := m.(*ast.CompositeLit).Elts
				c.expected = append(c.expected, expectation{parts[0].(*ast.SelectorExpr).Sel.Name, text(t, parts[1])})
			}
		}
	}
	return c
}

// text returns the value of a string literal.
func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(fmt.Errorf("%v: %w", e, err))
	}
	return s
}
