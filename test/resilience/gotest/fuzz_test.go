package gotest

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// minTargets is the number of fuzz targets that check 32 requires.
const minTargets = 60

// TestFuzzTargets runs each fuzz target for a while.
func TestFuzzTargets(t *testing.T) {
	scorecard.Heavy(t)
	each := scorecard.BySize(2*time.Second, 30*time.Second, time.Hour)
	root := module(t)
	targets := fuzzTargets(t, root)
	check := scorecard.Check(t, 32, scorecard.Size("targets", len(targets)), scorecard.Size("time for each", each))
	total, fewest, slowest := 0, 0, target{}
	for _, x := range targets {
		out, ok := run(t, root, false, "test", "./"+x.dir, "-run", "^$", "-fuzz", "^"+x.name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "5s")
		if !ok {
			t.Errorf("%s %s failed:\n%s", x.dir, x.name, tail(out, 40))
			continue
		}
		n := executions(out)
		if n == 0 {
			t.Errorf("%s %s: no execution was counted:\n%s", x.dir, x.name, tail(out, 10))
		}
		t.Logf("%s %s: %d executions", x.dir, x.name, n)
		if total += n; fewest == 0 || n < fewest {
			fewest, slowest = n, x
		}
	}
	check.Measured("executions", total)
	check.Measured("fewest of one target", strconv.Itoa(fewest)+" ("+slowest.name+")")
	if len(targets) < minTargets {
		t.Errorf("%d targets, want at least %d", len(targets), minTargets)
	}
}

// target is a fuzz target and the directory of its package below the module's root.
type target struct{ dir, name string }

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

func fuzzTargets(t *testing.T, root string) []target {
	t.Helper()
	var list []target
	for _, top := range []string{"internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			for _, m := range fuzzFunction.FindAllSubmatch(content, -1) {
				list = append(list, target{dir: filepath.ToSlash(dir), name: string(m[1])})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(list, func(a, b target) int { return cmp.Or(strings.Compare(a.dir, b.dir), strings.Compare(a.name, b.name)) })
	return list
}

var progress = regexp.MustCompile(`execs: (\d+)`)

// executions returns the last count that the fuzzing engine reported, 0 if there is none.
func executions(output string) int {
	all := progress.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1][1])
	return n
}
