package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// ownObject lists the folders whose Problems are about one object by itself, so that the code by
// severity is right: code.SchemaValidationError or code.SchemaWarning.
const ownObject = `
internal/model/config
internal/model/config/decode
internal/diagnostics/debug
internal/kube/webhook
internal/ingest/registry/conform
internal/ingest/registry/consul
internal/ingest/registry/kube
internal/ingest/registry/serviceentry
internal/ingest/source/credential
internal/ingest/source/file
internal/ingest/source/kube
internal/ingest/source/xds
`

// TestProblemsHaveCodes looks at each Problem in the source: it has a code of the table, or is about
// one object. Each code of the table is used.
func TestProblemsHaveCodes(t *testing.T) {
	var all strings.Builder
	files := token.NewFileSet()
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../../")))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all.Write(text)
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if ok && isProblem(literal) && hasKey(literal, "Reason") && !hasKey(literal, "Code") &&
				!strings.Contains(ownObject, "\n"+folder+"\n") {
				t.Errorf("%s: the Problem has no Code", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range code.All() {
		if !strings.Contains(all.String(), "code."+e.Name) {
			t.Errorf("%s %s is not used", e.Code, e.Name)
		}
	}
}

// isProblem reports whether a literal is a config.Problem, also as an element of a slice.
func isProblem(n *ast.CompositeLit) bool {
	switch typ := n.Type.(type) {
	case *ast.SelectorExpr:
		x, ok := typ.X.(*ast.Ident)
		return ok && x.Name == "config" && typ.Sel.Name == "Problem"
	case nil: // an element whose type is left out: it has the fields of a Problem
		return hasKey(n, "Reason") && hasKey(n, "Severity")
	default:
		return false
	}
}

func hasKey(n *ast.CompositeLit, name string) bool {
	for _, e := range n.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return true
			}
		}
	}
	return false
}
