package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testTree is the functions of test code, and of the code that test code calls with a *testing.T.
type testTree struct {
	set       *token.FileSet
	functions []*testFunction
	byName    map[string][]*testFunction // by directory and name: "test/architecture.parseTests"
	types     map[string]*structType
}

// testFunction is a function or method declaration.
type testFunction struct {
	decl    *ast.FuncDecl
	dir     string
	imports map[string]string // local name to directory, of packages of this module
	// guess is set in files that import package testing: a value whose type is not known may be a testing.TB, or of a type
	// with one.
	guess bool
	// variables are the parameters and local variables by name.
	variables map[string][]variable
	// fatal reports whether a call may end the calling goroutine by way of a testing.T.
	fatal bool
	// spawned are the indices of the parameters that it calls on another goroutine.
	spawned map[int]bool
}

// parseTests reads the Go files below a directory that are tests, and all files of packages for tests, which import package
// testing in other files than tests.
func parseTests(t *testing.T, dir string) *testTree {
	t.Helper()
	tree := &testTree{set: token.NewFileSet(), byName: map[string][]*testFunction{}, types: map[string]*structType{}}
	sources := readGoFiles(t, root(dir))
	forTests := map[string]bool{}
	for name, source := range sources {
		if !strings.HasSuffix(name, "_test.go") && strings.Contains(source, `"testing"`) {
			forTests[path.Dir(name)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if !strings.HasSuffix(name, "_test.go") && !forTests[path.Dir(name)] {
			continue
		}
		f, err := parser.ParseFile(tree.set, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		tree.add(f, path.Dir(name))
	}
	tree.propagate()
	return tree
}

// readGoFiles returns the texts of the Go files by name, without those of testdata.
func readGoFiles(t *testing.T, files fs.FS) map[string]string {
	t.Helper()
	sources := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := fs.ReadFile(files, name)
		sources[name] = string(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// add collects the functions of a file.
func (tree *testTree) add(f *ast.File, dir string) {
	imports, guess := map[string]string{}, false
	for _, i := range f.Imports {
		guess = guess || i.Path.Value == `"testing"`
		where, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
		if !ours {
			continue
		}
		name := path.Base(where)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = where
	}
	tree.addTypes(f, dir, imports)
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil {
			continue
		}
		fn := &testFunction{decl: decl, dir: dir, imports: imports, guess: guess, variables: variablesOf(decl), spawned: map[int]bool{}}
		tree.functions = append(tree.functions, fn)
		key := dir + "." + decl.Name.Name
		tree.byName[key] = append(tree.byName[key], fn)
	}
}

// parameters returns the indices of the parameters by name.
func (fn *testFunction) parameters() map[string]int {
	indices, i := map[string]int{}, 0
	for _, field := range fn.decl.Type.Params.List {
		for _, n := range field.Names {
			indices[n.Name] = i
			i++
		}
	}
	return indices
}

// callees returns the functions that a call may be of. A method of a value whose type is not known is looked for in the
// package alone; where several types have one of the name, all of them must end the goroutine to be returned.
func (tree *testTree) callees(fn *testFunction, call *ast.CallExpr) []*testFunction {
	return tree.calleesWithin(fn, call, maxTypeSteps)
}

func (tree *testTree) calleesWithin(fn *testFunction, call *ast.CallExpr, steps int) []*testFunction {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if _, shadowed := fn.parameters()[f.Name]; shadowed {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(tree.byName[fn.dir+"."+f.Name]), func(m *testFunction) bool { return m.decl.Recv != nil })
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			if dir, imported := fn.imports[x.Name]; imported {
				return tree.byName[dir+"."+f.Sel.Name]
			}
		}
		if name := tree.typeWithin(fn, f.X, steps-1); tree.types[name] != nil || name == testType {
			if m, _ := tree.methodOf(name, f.Sel.Name); m != nil {
				return []*testFunction{m}
			}
			return nil
		}
		if !fn.guess {
			return nil
		}
		var methods []*testFunction
		for _, m := range tree.byName[fn.dir+"."+f.Sel.Name] {
			if m.decl.Recv != nil {
				methods = append(methods, m)
			}
		}
		if len(methods) > 1 && !slices.ContainsFunc(methods, func(m *testFunction) bool { return !m.fatal }) {
			return methods
		}
		if len(methods) == 1 {
			return methods
		}
	}
	return nil
}

// root returns the file system below a directory.
func root(dir string) fs.FS { return os.DirFS(filepath.FromSlash(dir)) }
