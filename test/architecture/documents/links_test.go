package documents

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

var (
	fenced     = regexp.MustCompile("(?ms)^ *(```+|~~~+).*?^ *(```+|~~~+) *$")
	indented   = regexp.MustCompile(`(?m)(^\n|\A)((    |\t).*(\n|\z)|\n)+`)
	inlineCode = regexp.MustCompile("`+[^`]*`+")
	// inlineLink matches [text](target) and ![text](target); the text may span two lines and
	// contain an image.
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *#*$`)
	textOfLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	otherHost  = regexp.MustCompile(`^(https?|mailto|oci):`)
)

// links returns the targets of the links in a Markdown text. Code has none.
func links(text string) (targets []string) {
	text = fenced.ReplaceAllString(text, "")
	text = indented.ReplaceAllString(text, "\n")
	text = inlineCode.ReplaceAllString(text, "x")
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		targets = append(targets, m[1])
	}
	return targets
}

// anchors returns the fragments by which the headings of a Markdown text can be linked to, on the
// code host and in the site: lower case, without punctuation, with hyphens for spaces.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := textOfLink.ReplaceAllString(m[1], "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, title)
		found[slug] = true
	}
	return found
}

// brokenLink returns what is wrong with a link in the document at a path, or "". Links to other
// hosts are not checked.
func brokenLink(dir, document, link string) string {
	if otherHost.MatchString(link) {
		return ""
	}
	target, fragment, hasFragment := strings.Cut(link, "#")
	if path.IsAbs(target) {
		return "is absolute; write it relative to the document"
	}
	file := path.Clean(path.Join(path.Dir(document), target))
	if target == "" {
		file = document
	}
	if strings.HasPrefix(file, "../") {
		return "leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return "there is no " + file
	}
	if !hasFragment || path.Ext(file) != ".md" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return err.Error()
	}
	if !anchors(string(text))[fragment] {
		return fmt.Sprintf("%s has no heading with the anchor %s", file, fragment)
	}
	return ""
}

// TestLinks: the relative links of all documents lead to files of the repository, and their
// fragments to headings.
func TestLinks(t *testing.T) {
	all := documents(t)
	for _, name := range []string{"CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	found := 0
	for _, document := range slices.Sorted(maps.Keys(all)) {
		for _, link := range links(all[document]) {
			found++
			if problem := brokenLink(root, document, link); problem != "" {
				t.Errorf("%s: the link %s %s", document, link, problem)
			}
		}
	}
	if found < 300 {
		t.Fatalf("%d links in all documents: the test is not effective", found)
	}
}

// TestBrokenLink: each kind of broken link is found, in text but not in code.
func TestBrokenLink(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"docs/a.md": "# A page\n## `x`: (1), [y](b.md)\n```\n# not\n```\n", "docs/b.md": ""} {
		if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, want := range map[string]string{
		"https://other.example/": "",
		"a.md":                   "",
		"../docs":                "",
		"a.md#a-page":            "",
		"a.md#x-1-y":             "",
		"a.md#not":               "docs/a.md has no heading with the anchor not",
		"#missing":               "docs/b.md has no heading with the anchor missing",
		"missing.md":             "there is no docs/missing.md",
		"../../a.md":             "leads out of the repository",
		"/docs/a.md":             "is absolute; write it relative to the document",
	} {
		if got := brokenLink(dir, "docs/b.md", link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
	text := "[a](1) and ![b](2 \"title\")\n\n    [code](3)\n\n```\n[code](4)\n```\n`[code](5)` [![c](6)](7) [two\nlines](8)\n"
	if got := strings.Join(links(text), " "); got != "1 2 6 7 8" {
		t.Errorf("the links are %s", got)
	}
}

// TestNavigation: mkdocs.yml has every document below docs in its navigation, by name or by a
// pattern DIR/*, and no document twice.
func TestNavigation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, nav, found := strings.Cut(string(text), "\nnav:\n")
	if !found {
		t.Fatal("mkdocs.yml has no nav")
	}
	var entries []any
	if err := yaml.Unmarshal([]byte(nav), &entries); err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	addEntries(named, entries)
	for document := range documents(t) {
		name, inDocs := strings.CutPrefix(document, "docs/")
		if !inDocs {
			continue
		}
		if n := named[name]; n > 1 || n == 0 && named[path.Dir(name)+"/*"] == 0 {
			t.Errorf("%s has %d entries in the navigation of mkdocs.yml, want 1", document, n)
		}
	}
}

// addEntries counts the documents of a navigation.
func addEntries(named map[string]int, entry any) {
	switch entry := entry.(type) {
	case string:
		named[entry]++
	case []any:
		for _, e := range entry {
			addEntries(named, e)
		}
	case map[string]any:
		for _, e := range entry {
			addEntries(named, e)
		}
	}
}
