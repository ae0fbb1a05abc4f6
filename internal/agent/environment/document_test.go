package environment

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

// TestDocument holds docs/ENVIRONMENT-AGENT.md against the names in this folder: all that are read are there, and no others.
func TestDocument(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)"`).FindAllStringSubmatch(content(t, name), -1) {
			read[m[1]] = true
		}
	}
	said := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)`").FindAllStringSubmatch(content(t, "../../../docs/ENVIRONMENT-AGENT.md"), -1) {
		said[m[1]] = true
	}
	for name := range said { // a whole family is read by its prefix
		if (strings.HasSuffix(name, "_NAME") || strings.HasPrefix(name, metaJSONPrefix)) && !read[name] {
			delete(said, name)
		}
	}
	delete(said, "PROXY_CONFIG") // which the command reads
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), slices.Sorted(maps.Keys(said))); diff != "" {
		t.Errorf("docs/ENVIRONMENT-AGENT.md (-is +said):\n%s", diff)
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
