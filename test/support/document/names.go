package document

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Names returns the matches of the first group of a pattern in a text.
func Names(text string, pattern *regexp.Regexp) map[string]bool {
	names := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

// Sources returns the text of the Go files of the test's folder, but for tests.
func Sources(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			text.WriteString(Content(t, name))
		}
	}
	return text.String()
}

// Content returns the text of a file.
func Content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
