package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestGoroutineLeaks requires of every package whose shipped code starts goroutines a
// goleak.VerifyTestMain in its tests, which fails when a goroutine outlives the tests.
func TestGoroutineLeaks(t *testing.T) {
	check := scorecard.Check(t, 31)
	exempt := map[string]string{
		"cmd/pilot-agent":     "its tests run in a network namespace of their own, as a process that is started again (netns.TestMain)",
		"cmd/pilot-discovery": "its tests start the program as a process",
	}
	packages := map[string]bool{}
	for _, s := range goroutines(t) {
		packages[path.Dir(s.file)] = true
	}
	check.Measured("packages", len(packages))
	if len(packages) < 20 {
		t.Fatalf("only %d packages start goroutines: the test is not effective", len(packages))
	}
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		held := strings.Contains(testsOf(t, p), "goleak.VerifyTestMain(")
		if _, exempted := exempt[p]; held == exempted {
			t.Errorf("%s starts goroutines: goleak.VerifyTestMain in its tests: %t, exempt: %t", p, held, exempted)
		}
	}
}

// TestGoroutinesRecover lists the goroutines of the control plane and the agent that are not recovered (ADR 33), by file, so that
// a new one is a decision. The number is how many the file starts.
func TestGoroutinesRecover(t *testing.T) {
	unrecovered := map[string]int{}
	for _, s := range goroutines(t) {
		if !s.recovers {
			unrecovered[s.file]++
		}
	}
	want := notRecovered()
	for _, file := range slices.Sorted(maps.Keys(unrecovered)) {
		if n := unrecovered[file]; n != want[file] {
			t.Errorf("%s starts %d goroutines without recovery, want %d: recover them (internal/base/recovery), or add them to notRecovered", file, n, want[file])
		}
		delete(want, file)
	}
	for file := range want {
		t.Errorf("%s has no goroutine without recovery any more: remove its line of notRecovered", file)
	}
}

// started is a place that starts a goroutine.
type started struct {
	file     string
	recovers bool
}

// goroutines returns the places in shipped code: go statements, and calls of a method Go with one function (sync.WaitGroup and
// errgroup.Group). One recovers if its function, or the call of the go statement, contains a call of package recovery or of a
// function that recovers.
func goroutines(t *testing.T) (list []started) {
	t.Helper()
	set := token.NewFileSet()
	for _, file := range shipped(t) {
		f, err := parser.ParseFile(set, "../../"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.GoStmt:
				list = append(list, started{file, recovers(x.Call)})
			case *ast.CallExpr:
				if s, is := x.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "Go" && len(x.Args) == 1 {
					list = append(list, started{file, recovers(x.Args[0])})
				}
			}
			return true
		})
	}
	return list
}

// recovers reports whether code calls something that recovers panics: by its name, of which the tests of package recovery and of the
// functions' own packages show that they do.
func recovers(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
			if x, is := f.X.(*ast.Ident); is && x.Name == "recovery" {
				found = true
			}
			if x, is := f.X.(*ast.SelectorExpr); is && strings.EqualFold(x.Sel.Name, "recovery") {
				found = true
			}
			if x, is := f.X.(*ast.Ident); is && x.Name == "recorder" {
				found = true
			}
		}
		switch name {
		case "recoverStream", "restarting", "protect", "runRecovered", "receiveRequests": // of xds/server and discovery
			found = true
		case "Call": // Recorder.Call: a component, a function, what it is about
			found = found || len(call.Args) > 2
		}
		return !found
	})
	return found
}

// testsOf returns the text of a package's tests.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	return text.String()
}
