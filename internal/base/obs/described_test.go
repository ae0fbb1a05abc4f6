package obs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestScopesAreDescribed tests that every scope has a description.
func TestScopesAreDescribed(t *testing.T) {
	files, err := filepath.Glob("../../discovery/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\.Scope\("([a-z]+)"\)`)
	found := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if describeScope(m[1]) == "" {
				t.Errorf("%s: the scope %q has no description", f, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d scopes were found in %d files", found, len(files))
	}
}
