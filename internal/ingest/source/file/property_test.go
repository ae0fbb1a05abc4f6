package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestAnySequenceOfWritesEndsAsAFreshRead makes arbitrary changes to a small tree, fixes invalid
// files at the end, and compares the state of the source with that of a new source.
func TestAnySequenceOfWritesEndsAsAFreshRead(t *testing.T) {
	sequences := scorecard.BySize(1, 20, 200) // rapid makes a hundred at a time
	check := scorecard.Check(t, 25, scorecard.Size("sequences of up to 25 changes", 100*sequences))
	root := t.TempDir()
	runs := 0
	defer func() { check.Measured("sequences", runs) }()
	for range sequences {
		rapid.Check(t, func(rt *rapid.T) {
			runs++
			dir := filepath.Join(root, fmt.Sprint("run", runs))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprint(runs), func(t *testing.T) {
				f := follow(t, dir, Options{Settle: time.Millisecond, Hold: 2 * time.Millisecond})
				step := rapid.Custom(func(rt *rapid.T) change {
					return change{
						kind:  rapid.SampledFrom([]string{"write", "rename", "remove", "removeAll", "truncate", "garbage", "wait", "move"}).Draw(rt, "kind"),
						file:  rapid.SampledFrom([]string{"a.yaml", "b.yaml", "d/a.yaml", "d/e/c.yaml"}).Draw(rt, "file"),
						names: rapid.SliceOfN(rapid.SampledFrom([]string{"r", "s", "t", "u"}), 0, 3).Draw(rt, "names"),
					}
				})
				for i, c := range rapid.SliceOfN(step, 1, 25).Draw(rt, "changes") {
					c.apply(f, i)
				}
				for _, rel := range []string{"a.yaml", "b.yaml", "d/a.yaml", "d/e/c.yaml"} {
					if content, err := os.ReadFile(f.path(rel)); err == nil && string(content) == garbage {
						f.atomically(rel, rule("mended", "m"))
					}
				}
				fresh := follow(t, dir, Options{})
				fresh.until("a fresh read", func() bool { return fresh.synced })
				f.untilState(fresh.state())
			})
		})
	}
}

const garbage = "kind: [\n"

type change struct {
	kind, file string
	names      []string
}

func (c change) apply(f *follower, n int) {
	var rules []string
	for i, name := range c.names {
		rules = append(rules, rule(name, fmt.Sprintf("h%d-%d", n, i)))
	}
	switch c.kind {
	case "write":
		f.write(c.file, docs(rules...))
	case "rename":
		if err := os.MkdirAll(filepath.Dir(f.path(c.file)), 0o700); err != nil {
			f.t.Fatal(err)
		}
		f.atomically(c.file, docs(rules...))
	case "remove":
		f.remove(c.file)
	case "removeAll":
		f.remove("d")
	case "truncate":
		f.write(c.file, "")
	case "garbage":
		f.write(c.file, garbage)
	case "move":
		if os.Rename(f.path("a.yaml"), f.path("b.yaml")) != nil {
			f.write("a.yaml", docs(rules...))
		}
	case "wait":
		select {
		case batch := <-f.batches:
			f.recordBatch(batch)
		case <-time.After(3 * time.Millisecond):
		}
	}
}
