package guard

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// head is the head of the table in docs/BENCHMARKS.md. The table ends with the first other line.
const head = "| event | allocations | bytes allocated | bytes sent |\n|---|---|---|---|\n"

func document(t *testing.T) (path string) {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "docs", "BENCHMARKS.md")
}

// splitDocument returns the document before, in and after the rows of the table.
func splitDocument(t *testing.T) (before, rows, after string) {
	t.Helper()
	text, err := os.ReadFile(document(t))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table of guarded figures", document(t))
	}
	for strings.HasPrefix(rest[len(rows):], "|") {
		line, _, _ := strings.Cut(rest[len(rows):], "\n")
		rows += line + "\n"
	}
	return before + head, rows, rest[len(rows):]
}

// readTable returns the recorded figures.
func readTable(t *testing.T) map[string]figure {
	t.Helper()
	_, rows, _ := splitDocument(t)
	recorded := map[string]figure{}
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			t.Fatalf("table of guarded figures: %q", row)
		}
		var f figure
		for i, into := range []*int64{&f.count, &f.bytes, &f.sent} {
			if text := strings.TrimSpace(cells[2+i]); text != "" {
				if _, err := fmt.Sscan(text, into); err != nil {
					t.Fatalf("table of guarded figures: %q: %v", row, err)
				}
			}
		}
		recorded[strings.Trim(strings.TrimSpace(cells[1]), "`")] = f
	}
	return recorded
}

// writeTable replaces the recorded figures. Figures within the tolerance of the recorded ones are
// left as they are, so that the change of the document shows what has changed.
func writeTable(t *testing.T, measured map[string]figure) {
	t.Helper()
	before, _, after := splitDocument(t)
	recorded := readTable(t)
	var rows strings.Builder
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		f := measured[name]
		if r, ok := recorded[name]; ok && !f.exceeds(r) && !r.exceeds(f) {
			f = r
		}
		fmt.Fprintf(&rows, "| `%s` | %d |", name, f.count)
		if f.sent > 0 {
			fmt.Fprintf(&rows, " | %d |\n", f.sent)
		} else {
			fmt.Fprintf(&rows, " %d | |\n", f.bytes)
		}
	}
	if err := os.WriteFile(document(t), []byte(before+rows.String()+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
