package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the dashboards instead of comparing them")

// TestFiles compares the files of the chart with the tables.
func TestFiles(t *testing.T) {
	dir := filepath.Join("..", "charts", "istiod", "monitoring", "dashboards")
	if *update {
		if err := writeAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(pages()) {
		t.Errorf("%d files, want %d", len(files), len(pages()))
	}
	for _, p := range pages() {
		want, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, p.file()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs, run `make dashboards` (-want +got):\n%s", p.file(), diff)
		}
	}
}

// TestLayout: no two panels overlap, none is wider than the page, and IDs differ.
func TestLayout(t *testing.T) {
	for _, p := range pages() {
		taken := map[[2]int]int{}
		ids := map[int]bool{}
		for _, x := range p.dashboard().Panels {
			if ids[x.ID] {
				t.Errorf("%s: %s has the ID of another panel", p.name, x.Title)
			}
			ids[x.ID] = true
			g := x.GridPos
			if g.X+g.W > columns {
				t.Errorf("%s: %s ends at column %d", p.name, x.Title, g.X+g.W)
			}
			for column := g.X; column < g.X+g.W; column++ {
				for line := g.Y; line < g.Y+g.H; line++ {
					if other := taken[[2]int{column, line}]; other != 0 {
						t.Fatalf("%s: %s is over panel %d", p.name, x.Title, other)
					}
					taken[[2]int{column, line}] = x.ID
				}
			}
		}
	}
}
