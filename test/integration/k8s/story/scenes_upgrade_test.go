package story

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/document"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// TestAllCommandsArePlayed: each section with commands of docs/UPGRADE.md is played, in the order of
// the document; and of docs/install/kubernetes.md all but the named ones.
func TestAllCommandsArePlayed(t *testing.T) {
	var upgrades []string
	for _, d := range slices.Concat(upgradeSections(), moveSections()) {
		upgrades = append(upgrades, d.title)
	}
	// kind needs a container engine, and nodes of the test's clusters do not run the CNI plugin.
	notPlayed := []string{"On kind", "Without privileged init containers"}
	for path, want := range map[string][]string{
		upgradeDocument: upgrades,
		installDocument: {notPlayed[0], installSection, injectSection, notPlayed[1], gatewaySection, removeSection},
	} {
		root, err := program.Root()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range document.ParseSections(string(text)) {
			got = append(got, s.Title)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: sections with commands (-played +documented):\n%s", path, diff)
		}
	}
}
