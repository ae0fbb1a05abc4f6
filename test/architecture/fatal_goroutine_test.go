package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFatalStaysOnTestGoroutine finds tests that call t.Fatal, t.FailNow or t.Skip, directly or through a function of this
// module, on another goroutine than the test's. Those methods end the calling goroutine: a test that waits for that
// goroutine's result then hangs until the limit of the package (testing.T.FailNow).
//
// The search is syntactic. A call is resolved by its name: in the same package, or in the imported package of this module.
// Another goroutine is a go statement, a method named Go, an HTTP handler, and the argument of a function that itself calls
// its argument on another goroutine. go vet finds only the first of these, and only direct calls.
func TestFatalStaysOnTestGoroutine(t *testing.T) {
	tree := parseTests(t, "../..")
	if len(tree.functions) < 500 {
		t.Fatalf("only %d functions were read: the test is not effective", len(tree.functions))
	}
	for _, place := range tree.violations() {
		if !strings.HasPrefix(place, "test/support/envoy/process_test.go:") { // TestStartFails: of a testing.TB of its own
			t.Error(place)
		}
	}
}

// TestFatalIsFound runs the search on a package that breaks the rule in each known way.
func TestFatalIsFound(t *testing.T) {
	found := parseTests(t, "testdata/goroutine").violations()
	var lines []string
	for _, f := range found {
		_, rest, _ := strings.Cut(f, "goroutine_test.go:")
		line, _, _ := strings.Cut(rest, ":")
		lines = append(lines, line)
	}
	source, err := fs.ReadFile(root("testdata/goroutine"), "goroutine_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, line := range strings.Split(string(source), "\n") {
		if strings.Contains(line, "// want") {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	if !slices.Equal(lines, want) || len(want) == 0 {
		t.Errorf("found lines %v, want %v", lines, want)
	}
}

// testTree is the functions of test code, and of the code that test code calls with a *testing.T.
type testTree struct {
	set       *token.FileSet
	functions []*testFunction
	byName    map[string][]*testFunction // by directory and name: "test/architecture.parseTests"
}

// testFunction is a function or method declaration.
type testFunction struct {
	decl    *ast.FuncDecl
	dir     string
	imports map[string]string // local name to directory, of packages of this module
	// fatal reports whether a call may end the calling goroutine by way of a testing.T.
	fatal bool
	// spawned are the indices of the parameters that it calls on another goroutine.
	spawned map[int]bool
}

// parseTests reads the Go files below a directory that are tests or import package testing.
func parseTests(t *testing.T, dir string) *testTree {
	t.Helper()
	tree := &testTree{set: token.NewFileSet(), byName: map[string][]*testFunction{}}
	files := root(dir)
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
		if err != nil {
			return err
		}
		if !strings.Contains(string(source), `"testing"`) {
			return nil
		}
		f, err := parser.ParseFile(tree.set, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		tree.add(f, path.Dir(name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tree.propagate()
	return tree
}

// add collects the functions of a file.
func (tree *testTree) add(f *ast.File, dir string) {
	imports := map[string]string{}
	for _, i := range f.Imports {
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
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil {
			continue
		}
		fn := &testFunction{decl: decl, dir: dir, imports: imports, spawned: map[int]bool{}}
		tree.functions = append(tree.functions, fn)
		key := dir + "." + decl.Name.Name
		tree.byName[key] = append(tree.byName[key], fn)
	}
}

// propagate marks the functions that may end their goroutine or call an argument on another one, until no more are found.
func (tree *testTree) propagate() {
	for changed := true; changed; {
		changed = false
		for _, fn := range tree.functions {
			elsewhere := tree.elsewhere(fn)
			if !fn.fatal && tree.firstFatal(fn, fn.decl.Body, elsewhere) != nil {
				fn.fatal, changed = true, true
			}
			if before := len(fn.spawned); tree.markSpawned(fn, elsewhere) > before {
				changed = true
			}
		}
	}
}

// elsewhere returns the function literals and the called functions that run on another goroutine. The arguments of a go
// statement are not among them: they are evaluated on the goroutine that starts it.
func (tree *testTree) elsewhere(fn *testFunction) []ast.Node {
	var list []ast.Node
	ast.Inspect(fn.decl.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.GoStmt:
			if lit, ok := x.Call.Fun.(*ast.FuncLit); ok {
				list = append(list, lit)
			} else {
				list = append(list, &ast.CallExpr{Fun: x.Call.Fun, Lparen: x.Call.Pos()})
			}
		case *ast.CallExpr:
			callees := tree.callees(fn, x)
			for i, a := range x.Args {
				spawned := calledName(x) == "Go" || slices.ContainsFunc(callees, func(f *testFunction) bool { return f.spawned[i] })
				if lit, ok := a.(*ast.FuncLit); ok && spawned && !hasOwnTest(lit.Type) {
					list = append(list, lit)
				}
			}
		case *ast.FuncLit:
			if isHandler(x.Type) {
				list = append(list, x)
			}
		}
		return true
	})
	return list
}

// firstFatal returns the first call below a node that may end the calling goroutine, or nil. It
// does not search the nodes to skip.
func (tree *testTree) firstFatal(fn *testFunction, below ast.Node, skip []ast.Node) ast.Node {
	var found ast.Node
	ast.Inspect(below, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		switch {
		case found != nil || n != below && slices.Contains(skip, n):
			return false
		case !ok:
			return true
		case endsGoroutine(call) || slices.ContainsFunc(tree.callees(fn, call), func(f *testFunction) bool { return f.fatal }):
			found = call
			return false
		}
		return true
	})
	return found
}

// markSpawned marks the parameters that a function calls in a node that runs on another goroutine, or hands to a function
// that does. It returns how many are marked.
func (tree *testTree) markSpawned(fn *testFunction, elsewhere []ast.Node) int {
	parameters := fn.parameters()
	mark := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			if i, known := parameters[id.Name]; known {
				fn.spawned[i] = true
			}
		}
	}
	for _, e := range elsewhere {
		ast.Inspect(e, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				mark(call.Fun)
			}
			return true
		})
	}
	ast.Inspect(fn.decl.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			for _, callee := range tree.callees(fn, call) {
				for i := range callee.spawned {
					if i < len(call.Args) {
						mark(call.Args[i])
					}
				}
			}
		}
		return true
	})
	return len(fn.spawned)
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

// callees returns the functions that a call may be of. A method is looked for in the package alone; where several types
// have one of the name, all of them must end the goroutine to be returned.
func (tree *testTree) callees(fn *testFunction, call *ast.CallExpr) []*testFunction {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if _, shadowed := fn.parameters()[f.Name]; shadowed {
			return nil
		}
		return tree.byName[fn.dir+"."+f.Name]
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			if dir, imported := fn.imports[x.Name]; imported {
				return tree.byName[dir+"."+f.Sel.Name]
			}
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

// violations lists the calls on other goroutines that may end them, with file and line, in the order of the files.
func (tree *testTree) violations() []string {
	var list []string
	for _, fn := range tree.functions {
		elsewhere := tree.elsewhere(fn)
		for _, e := range elsewhere {
			if call := tree.firstFatal(fn, e, elsewhere); call != nil {
				list = append(list, tree.set.Position(call.Pos()).String()+": may end a goroutine that is not the test's (t.Fatal, t.FailNow or t.Skip)")
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// endsGoroutine reports whether a call is of a method of testing.TB that ends the calling goroutine.
func endsGoroutine(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch s.Sel.Name {
	case "Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow":
	default:
		return false
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		return isTest(x.Name)
	case *ast.SelectorExpr:
		return isTest(x.Sel.Name)
	}
	return false
}

func isTest(name string) bool { return name == "t" || name == "tb" || name == "b" || name == "f" }

// isHandler reports whether a function type is that of an HTTP handler.
func isHandler(f *ast.FuncType) bool {
	if len(f.Params.List) != 2 {
		return false
	}
	s, ok := f.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "ResponseWriter"
}

// hasOwnTest reports whether a function has its own testing.TB parameter, which serving.Group makes
// safe.
func hasOwnTest(f *ast.FuncType) bool {
	for _, field := range f.Params.List {
		if s, ok := field.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "TB" {
			return true
		}
	}
	return false
}

func calledName(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// root returns the file system below a directory.
func root(dir string) fs.FS { return os.DirFS(filepath.FromSlash(dir)) }
