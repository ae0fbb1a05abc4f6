package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvironmentIsDocumented holds docs/ENVIRONMENT.md against the names in this folder: all that are read are there, and of the
// others none.
func TestEnvironmentIsDocumented(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+|REVISION|KUBECONFIG|PLATFORM)"`).FindAllStringSubmatch(content(t, name), -1) {
			read[m[1]] = true
		}
	}
	text, others, found := strings.Cut(content(t, "../../docs/ENVIRONMENT.md"), "## Not read")
	if !found {
		t.Fatal("the document has no part about names that are not read")
	}
	names := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	said := map[string]bool{}
	for _, m := range names.FindAllStringSubmatch(text, -1) {
		said[m[1]] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), slices.Sorted(maps.Keys(said))); diff != "" {
		t.Errorf("docs/ENVIRONMENT.md, read (-is +said):\n%s", diff)
	}
	for _, m := range names.FindAllStringSubmatch(others, -1) {
		if read[m[1]] {
			t.Errorf("docs/ENVIRONMENT.md: %s is read", m[1])
		}
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
