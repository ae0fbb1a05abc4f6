package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// requirements returns the direct requirements of a go.mod, as the table of libraries names them: a module of
// GitHub without the host.
func requirements(text string) map[string]bool {
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+$`).FindAllStringSubmatch(text, -1) {
		direct[strings.TrimPrefix(m[1], "github.com/")] = true
	}
	return direct
}

// libraryProblems compares a table of libraries, whose second column has the modules in backquotes, with the
// direct requirements.
func libraryProblems(table string, direct map[string]bool) (problems []string) {
	listed := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			switch name := m[1]; {
			case listed[name]:
				problems = append(problems, name+" is listed twice")
			case !direct[name]:
				problems = append(problems, name+" is listed, but is no direct requirement")
			default:
				listed[name] = true
			}
		}
	}
	for name := range direct {
		if !listed[name] {
			problems = append(problems, name+" is a direct requirement without a reason")
		}
	}
	return problems
}

// TestLibraries: ADR 1 has a reason for every direct requirement of go.mod, and names no other module.
func TestLibraries(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	direct := requirements(read("go.mod"))
	if len(direct) < 50 {
		t.Fatalf("%d requirements: the test is not effective", len(direct))
	}
	for _, problem := range libraryProblems(read("docs/adr/0001-libraries.md"), direct) {
		t.Errorf("docs/adr/0001-libraries.md: %s", problem)
	}
}

// TestLibraryProblems: a missing row, a row too many and a module in two rows are reported.
func TestLibraryProblems(t *testing.T) {
	direct := requirements("module m\n\nrequire (\n\tgithub.com/a/b v1.0.0\n\tgo.example/c v0.1.0\n\tgithub.com/d/e v1.0.0 // indirect\n)\n")
	for table, want := range map[string]string{
		"| x | `a/b`, `go.example/c` | r |\n":              "",
		"| x | `a/b` | `go.example/c` |\n":                 "go.example/c is a direct requirement without a reason",
		"| x | `a/b`, `go.example/c`, `d/e` | r |\n":       "d/e is listed, but is no direct requirement",
		"| x | `a/b`, `go.example/c` | r |\n| y | `a/b` |": "a/b is listed twice",
	} {
		if got := strings.Join(libraryProblems(table, direct), "; "); got != want {
			t.Errorf("%q: %q, want %q", table, got, want)
		}
	}
}
