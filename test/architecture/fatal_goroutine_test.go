package architecture

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFatalStaysOnTestGoroutine finds tests that call t.Fatal, t.FailNow or t.Skip, directly or through a function of this
// module, on another goroutine than the test's. Those methods end the calling goroutine: a test that waits for that
// goroutine's result then hangs until the limit of the package (testing.T.FailNow).
//
// The search is syntactic. A call is resolved by its name: in the same package, or in the imported package of this module. A
// method is resolved by the type with which its variable is declared, also if that type embeds a *testing.T. Another goroutine
// is a go statement, a method or function named Go or AfterFunc, an HTTP handler, and the argument of a function that itself calls its argument on
// another goroutine. go vet finds only the first of these, and only direct calls.
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

// elsewhere returns the function literals and calls of functions that run on another goroutine. The arguments of a go
// statement are not among them: they are evaluated on the goroutine that starts it.
func (tree *testTree) elsewhere(fn *testFunction) []ast.Node {
	var list []ast.Node
	ast.Inspect(fn.decl.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.GoStmt:
			if lit, ok := x.Call.Fun.(*ast.FuncLit); ok {
				list = append(list, lit)
			} else {
				list = append(list, fn.calls(x.Call.Fun)...)
			}
		case *ast.CallExpr:
			callees := tree.callees(fn, x)
			for i, a := range x.Args {
				if callsElsewhere(x) || slices.ContainsFunc(callees, func(f *testFunction) bool { return f.spawned[i] }) {
					list = append(list, fn.calls(a)...)
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

// calls returns what is executed if the function that an expression stands for is called: a function literal, also one in a
// local variable, or a call of a function or method by its name. It leaves out literals with a testing.TB of their own.
func (fn *testFunction) calls(e ast.Expr) []ast.Node {
	switch x := e.(type) {
	case *ast.FuncLit:
		if hasOwnTest(x.Type) {
			return nil
		}
		return []ast.Node{x}
	case *ast.Ident:
		var literals []ast.Node
		for _, v := range fn.variables[x.Name] {
			if lit, ok := v.value.(*ast.FuncLit); ok {
				literals = append(literals, lit)
			}
		}
		if literals != nil {
			return literals
		}
		return []ast.Node{&ast.CallExpr{Fun: x}}
	case *ast.SelectorExpr:
		return []ast.Node{&ast.CallExpr{Fun: x}}
	}
	return nil
}

// firstFatal returns the first call below a node that may end the calling goroutine, or nil. It
// does not search the nodes to skip.
func (tree *testTree) firstFatal(fn *testFunction, below ast.Node, skip []ast.Node) *ast.CallExpr {
	var found *ast.CallExpr
	ast.Inspect(below, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		switch {
		case found != nil || n != below && slices.Contains(skip, n):
			return false
		case !ok:
			return true
		case tree.endsGoroutine(fn, call) || slices.ContainsFunc(tree.callees(fn, call), func(f *testFunction) bool { return f.fatal }):
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

// violations lists the calls on other goroutines that may end them, with file and line, in the order of the files.
func (tree *testTree) violations() []string {
	found := map[token.Pos]string{}
	for _, fn := range tree.functions {
		elsewhere := tree.elsewhere(fn)
		for _, e := range elsewhere {
			if call := tree.firstFatal(fn, e, elsewhere); call != nil {
				found[call.Pos()] = tree.set.Position(call.Pos()).String() +
					": may end a goroutine that is not the test's (t.Fatal, t.FailNow or t.Skip)" + tree.route(fn, call)
			}
		}
	}
	var list []string
	for _, at := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[at])
	}
	return list
}

// route returns the calls that lead from a call to the one of t.Fatal, with file and line: ", by a.go:1:2, b.go:3:4". It is
// empty for a call of t.Fatal itself.
func (tree *testTree) route(fn *testFunction, call *ast.CallExpr) string {
	text, separator := "", ", by "
	for range len(tree.functions) {
		callees := tree.callees(fn, call)
		i := slices.IndexFunc(callees, func(f *testFunction) bool { return f.fatal })
		if tree.endsGoroutine(fn, call) || i < 0 {
			break
		}
		fn = callees[i]
		if call = tree.firstFatal(fn, fn.decl.Body, tree.elsewhere(fn)); call == nil {
			break
		}
		text += separator + tree.set.Position(call.Pos()).String()
		separator = ", "
	}
	return text
}

// endsGoroutine reports whether a call is of a method of testing.TB that ends the calling goroutine: of a value of package
// testing, of a struct that embeds one and has no such method of its own, or, where the type is not known, of a name that is
// usual for a testing.TB.
func (tree *testTree) endsGoroutine(fn *testFunction, call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch s.Sel.Name {
	case "Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow":
	default:
		return false
	}
	if name := tree.typeOf(fn, s.X); tree.types[name] != nil || name == testType {
		_, isTest := tree.methodOf(name, s.Sel.Name)
		return isTest
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		return fn.guess && isTest(x.Name)
	case *ast.SelectorExpr:
		return fn.guess && isTest(x.Sel.Name)
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

// callsElsewhere reports whether a call is of a function or method named Go or AfterFunc. In sync,
// errgroup, time and context, these call their argument on another goroutine.
func callsElsewhere(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc")
}
