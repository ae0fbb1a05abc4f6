package story

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// TestAllCommandsArePlayed: each section of docs/UPGRADE.md that has commands is played, in the order of
// the document.
func TestAllCommandsArePlayed(t *testing.T) {
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, upgradeDocument))
	if err != nil {
		t.Fatal(err)
	}
	var documentedTitles, played []string
	for _, s := range parseSections(string(text)) {
		documentedTitles = append(documentedTitles, s.title)
	}
	for _, d := range slices.Concat(upgradeSections(), moveSections()) {
		played = append(played, d.title)
	}
	if diff := cmp.Diff(played, documentedTitles); diff != "" {
		t.Errorf("sections with commands (-played +documented):\n%s", diff)
	}
}

func TestParseSections(t *testing.T) {
	got := parseSections("# Title\n\n    not of a section\n\n## One\n\ntext\n\n    a\n      b\n\n## Two\n\nno commands\n\n## Three\n\n    c\n\n- item\n\n    d\n")
	want := []section{{"One", "a\n  b\n"}, {"Three", "c\nd\n"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(section{})); diff != "" {
		t.Error(diff)
	}
}
