package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// boundless are the places that read all there is, and why there is not too much.
func boundless() map[string]string {
	return map[string]string{
		"internal/identity/authenticate/jwks.go": "package fetch bounds bodies", "internal/identity/jwks/fetch.go": "package fetch bounds bodies",
		"internal/diagnostics/cli/cli.go": "a user's tool asks the user's own cluster", "internal/diagnostics/cli/inject.go": "what a user pipes in", "internal/diagnostics/cli/proxy_config.go": "what a user pipes in",
	}
}

// TestHazards checks shipped code for known audit findings: input from the network is read only up
// to a bound, TLS configurations set a minimum version, and no server upgrades plain-text HTTP/1.1
// to HTTP/2, which smuggles requests (CVE-2022-41721). T-BODY, T-TLSMIN, T-H2C.
func TestHazards(t *testing.T) {
	seen := map[string]int{}
	for _, path := range shipped(t) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join("../..", path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			if p == "text/template" || p == "html/template" {
				t.Errorf("%s imports %s: with it, the linker keeps all methods of all types (ADR 46)", path, p)
			}
			if strings.HasSuffix(p, "/h2c") || strings.HasPrefix(p, "github.com/gogo/protobuf") || p == "io/ioutil" {
				t.Errorf("%s imports %s", path, p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.Ident:
				if x.Name == "ValidateAll" {
					t.Errorf("%s: with it, the linker keeps the validation code of all of Envoy's types; "+
						"use package pgv (ADR 46)", set.Position(x.Pos()))
				}
			case *ast.CallExpr:
				if name(x.Fun) != "io.ReadAll" {
					break
				}
				seen["io.ReadAll"]++
				inner, called := x.Args[0].(*ast.CallExpr)
				bounded := called && (name(inner.Fun) == "io.LimitReader" || name(inner.Fun) == "http.MaxBytesReader")
				if _, known := boundless()[path]; !bounded && !known {
					t.Errorf("%s reads without a bound", set.Position(x.Pos()))
				}
			case *ast.CompositeLit:
				if name(x.Type) != "tls.Config" {
					break
				}
				seen["tls.Config"]++
				if !slices.ContainsFunc(x.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					return ok && kv.Key.(*ast.Ident).Name == "MinVersion" //nolint:forcetypeassert // a field
				}) {
					t.Errorf("%s sets no minimum version of TLS", set.Position(x.Pos()))
				}
			}
			return true
		})
	}
	if seen["io.ReadAll"] < 5 || seen["tls.Config"] < 5 {
		t.Errorf("only %v were seen: the test is not effective", seen)
	}
}

func name(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// shipped are the Go files of the programs, by their paths in the repository.
func shipped(t *testing.T) []string {
	t.Helper()
	return goFiles(t, []string{"cmd", "internal", "pkg"}, func(path string) bool { return !strings.HasSuffix(path, "_test.go") })
}

// testCode returns the Go files that only tests use: those of test, and each _test.go elsewhere.
func testCode(t *testing.T) []string {
	t.Helper()
	return goFiles(t, []string{"cmd", "hack", "internal", "pkg", "samples", "test"}, func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/")
	})
}

// goFiles returns the Go files in folders of the repository for which keep returns true. Files in
// testdata and node_modules are left out.
func goFiles(t *testing.T, folders []string, keep func(path string) bool) (list []string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d fs.DirEntry, err error) error {
			path = strings.TrimPrefix(filepath.ToSlash(path), "../../")
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
				return fs.SkipDir
			case strings.HasSuffix(path, ".go") && keep(path):
				list = append(list, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(list) < 100 {
		t.Fatalf("only %d files: the test is not effective", len(list))
	}
	return list
}
