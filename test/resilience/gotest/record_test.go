package gotest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testedPackage is a package with tests.
type testedPackage struct {
	path string
	// folders are the folders of the package and of the packages of this module that it or its
	// tests import, relative to the module's root.
	folders []string
	// imports is the number of packages, of other modules too, that it or its tests import.
	imports int
}

// testedPackages returns the packages with tests that match pattern, in the order of their paths.
func testedPackages(t *testing.T, root, pattern string) []testedPackage {
	t.Helper()
	const format = `{{if .ForTest}}{{else}}{{.Name}} {{.ImportPath}} {{.Module.Path}} {{join .Deps " "}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-test", "-f", format, pattern)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var list []testedPackage
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "main" || !strings.HasSuffix(words[1], ".test") {
			continue
		}
		list = append(list, testedPackage{
			path:    strings.TrimSuffix(words[1], ".test"),
			folders: foldersOf(words[2], words[3:]),
			imports: len(words) - 3,
		})
	}
	if len(list) == 0 {
		t.Fatalf("no packages with tests match %s", pattern)
	}
	return list
}

// foldersOf returns the folders of those packages that belong to the module, without duplicates.
func foldersOf(module string, packages []string) []string {
	var folders []string
	for _, p := range packages {
		if folder, ok := strings.CutPrefix(p, module+"/"); ok && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// changedSince reports whether one of the files, relative to the module's root, is in a folder of
// the package or of its imports, or below one in testdata, or is go.mod.
func (p testedPackage) changedSince(files []string) bool {
	for _, file := range files {
		if file == "go.mod" {
			return true
		}
		folder, _, _ := strings.Cut(filepath.ToSlash(filepath.Dir(file)), "/testdata")
		if slices.Contains(p.folders, folder) {
			return true
		}
	}
	return false
}

// rank is lower for shipped packages than for those of test/.
func (p testedPackage) rank() int {
	if strings.Contains(p.path, "/test/") {
		return 1
	}
	return 0
}

// raceRecord is the list of packages that passed with the race detector, with the commit at which
// they did. It is kept in a file of bin/, so that several runs add up to all packages. Programs
// that a test builds and starts are not imports: their changes do not count.
type raceRecord struct {
	root, file string
	// head is the commit that is checked out, with a plus sign if there are uncommitted changes.
	head    string
	commits map[string]string // by path of the package
	// changes has the files that differ between a commit and the working tree.
	changes map[string][]string
}

func openRaceRecord(t *testing.T, root string, allTests bool) *raceRecord {
	t.Helper()
	name := "race-everyday.json"
	if allTests {
		name = "race-all.json"
	}
	r := &raceRecord{root: root, file: filepath.Join(root, "bin/scorecard", name), commits: map[string]string{}, changes: map[string][]string{}}
	r.head = r.git(t, "rev-parse", "--short=8", "HEAD")
	if r.git(t, "status", "--porcelain", "--", ":!docs") != "" {
		r.head += "+"
	}
	content, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil {
		err = json.Unmarshal(content, &r.commits)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range r.commits {
		if _, known := r.changes[commit]; !known && !strings.HasSuffix(commit, "+") {
			r.changes[commit] = strings.Fields(r.git(t, "diff", "--name-only", commit))
		}
	}
	return r
}

func (r *raceRecord) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// isCurrent reports whether the package passed at a commit since which neither it nor its imports
// changed. A result with uncommitted changes is never current in a later run.
func (r *raceRecord) isCurrent(p testedPackage) bool {
	commit, known := r.commits[p.path]
	changes, comparable := r.changes[commit]
	return known && comparable && !p.changedSince(changes)
}

// due returns the packages that have to run: first packages that never passed, then changed ones.
// Of each, shipped packages are first, and of these the ones with few imports, whose tests build
// fast.
func (r *raceRecord) due(packages []testedPackage) []testedPackage {
	var never, changed []testedPackage
	for _, p := range packages {
		switch {
		case r.commits[p.path] == "":
			never = append(never, p)
		case !r.isCurrent(p):
			changed = append(changed, p)
		}
	}
	for _, list := range [][]testedPackage{never, changed} {
		slices.SortStableFunc(list, func(a, b testedPackage) int {
			return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.imports, b.imports))
		})
	}
	return append(never, changed...)
}

// add records that a package passed now.
func (r *raceRecord) add(p testedPackage) {
	r.commits[p.path] = r.head
	r.changes[r.head] = nil
}

func (r *raceRecord) write(t *testing.T) {
	t.Helper()
	content, err := json.MarshalIndent(r.commits, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// passed returns how many of the packages have a current result, and at which commits. For packages
// that changed since they passed it returns only the commits.
func (r *raceRecord) passed(packages []testedPackage) (n int, commits, outdated string) {
	current, before := map[string]int{}, map[string]int{}
	for _, p := range packages {
		switch commit := r.commits[p.path]; {
		case r.isCurrent(p):
			current[commit]++
			n++
		case commit != "":
			before[commit]++
		}
	}
	return n, countText(current), countText(before)
}

// countText returns counts by commit as text: "0384a5e7 30 and 1f9b4ae0 150", "none" if there are none.
func countText(counts map[string]int) string {
	var list []string
	for _, commit := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", commit, counts[commit]))
	}
	return cmp.Or(strings.Join(list, " and "), "none")
}

// TestChangedPackagesRunAgain checks which results of an earlier run are kept.
func TestChangedPackagesRunAgain(t *testing.T) {
	p := testedPackage{path: "example.com/m/a/b", folders: foldersOf("example.com/m",
		[]string{"fmt", "example.com/m/a/b", "example.com/m/c", "example.com/m2/d", "example.com/m/c"})}
	for _, tt := range []struct {
		file string
		want bool
	}{
		{"a/b/x.go", true},
		{"a/b/testdata/fuzz/FuzzX/1", true},
		{"c/y_test.go", true},
		{"go.mod", true},
		{"a/b/other/x.go", false},
		{"d/x.go", false},
		{"docs/README.md", false},
	} {
		if got := p.changedSince([]string{tt.file}); got != tt.want {
			t.Errorf("after a change of %s: run again %t, want %t", tt.file, got, tt.want)
		}
	}
	r := raceRecord{head: "2", commits: map[string]string{"kept": "1", "changed": "1", "uncommitted": "1+"},
		changes: map[string][]string{"1": {"c/y.go"}}}
	packages := []testedPackage{
		{path: "kept", folders: []string{"kept"}}, {path: "changed", folders: []string{"c"}}, {path: "uncommitted"}, {path: "new"},
	}
	if n, commits, outdated := r.passed(packages); n != 1 || commits != "1 1" || outdated != "1 1 and 1+ 1" {
		t.Errorf("%d packages have a result, of %q, and outdated ones of %q", n, commits, outdated)
	}
	var due []string
	for _, p := range r.due(packages) {
		due = append(due, p.path)
	}
	if want := []string{"new", "changed", "uncommitted"}; !slices.Equal(due, want) {
		t.Errorf("due are %v, want %v", due, want)
	}
}

func TestPassedPackages(t *testing.T) {
	const output = "ok  \texample.com/a\t0.1s\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/b\t0.1s\nok  \texample.com/c\t2s [no tests to run]\nFAIL\n"
	if got, want := passedPackages(output), []string{"example.com/a", "example.com/c"}; !slices.Equal(got, want) {
		t.Errorf("passed are %v, want %v", got, want)
	}
}
