package document

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// FindNames returns the matches of the first group of a pattern in a text.
func FindNames(text string, pattern *regexp.Regexp) map[string]bool {
	names := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

// ReadSources returns the text of the Go files of the test's folder, but for tests.
func ReadSources(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			text.WriteString(ReadContent(t, name))
		}
	}
	return text.String()
}

// ReadContent returns the text of a file.
func ReadContent(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
