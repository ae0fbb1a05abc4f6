package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// adrProblems returns what is wrong with the numbers of design decisions: each file is named NNNN-title.md,
// has a number that no other has, and a title with that number.
func adrProblems(names []string, title func(name string) string) []string {
	var problems []string
	used := map[int]string{}
	for _, name := range names {
		m := regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`).FindStringSubmatch(name)
		if m == nil {
			problems = append(problems, name+" is not named NNNN-title.md")
			continue
		}
		number, err := strconv.Atoi(m[1])
		if other, twice := used[number]; twice || err != nil {
			problems = append(problems, fmt.Sprintf("%s has the number of %s: take the next free one", name, other))
		}
		used[number] = name
		if want := fmt.Sprintf("# %d. ", number); !strings.HasPrefix(title(name), want) {
			problems = append(problems, fmt.Sprintf("%s begins with %q, not with %q", name, title(name), want))
		}
	}
	return problems
}

// decisions returns the file names of all design decisions in alphabetical order.
func decisions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/*"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d design decisions, %v: the test is not effective", len(files), err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// TestADRNumbers: each design decision has a number of its own, in its name and in its title.
func TestADRNumbers(t *testing.T) {
	title := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs/adr", name))
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		return first
	}
	for _, problem := range adrProblems(decisions(t), title) {
		t.Error(problem)
	}
}

// TestADRProblems: a number that is used twice, another form of name and a wrong title are reported.
func TestADRProblems(t *testing.T) {
	titles := map[string]string{
		"0001-a.md": "# 1. A", "0002-b.md": "# 2. B", "0002-c.md": "# 2. C", "0004-d.md": "# 4. D", "0002-e.md": "# ADR 2: E",
	}
	for names, want := range map[string]string{
		"0001-a.md 0002-b.md 0004-d.md": "",
		"0001-a.md 0002-b.md 0002-c.md": "0002-c.md has the number of 0002-b.md: take the next free one",
		"0001-a.md 0002-e.md":           `0002-e.md begins with "# ADR 2: E", not with "# 2. "`,
		"0001-a.md 2-f.md":              "2-f.md is not named NNNN-title.md",
	} {
		problems := adrProblems(strings.Fields(names), func(name string) string { return titles[name] })
		if got := strings.Join(problems, "; "); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

// TestADRLinks: a link whose text is a number leads to the decision of that number, and every number that a
// document names is one of a decision.
func TestADRLinks(t *testing.T) {
	all := "\n" + strings.Join(decisions(t), "\n")
	link := regexp.MustCompile(`\[(?:ADR )?(\d+)\]\([\w./-]*?(\d{4})-[\w-]+\.md\)`)
	named := regexp.MustCompile(`\bADRs? (\d+)\b`)
	links, names := 0, 0
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			links++
			if want := strings.Repeat("0", max(0, 4-len(m[1]))) + m[1]; m[2] != want {
				t.Errorf("%s: the link %s leads to another decision", path, m[0])
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			names++
			if number, err := strconv.Atoi(m[1]); err != nil || !strings.Contains(all, fmt.Sprintf("\n%04d-", number)) {
				t.Errorf("%s: there is no %s", path, m[0])
			}
		}
	}
	if links < 10 || names < 50 {
		t.Fatalf("%d links and %d names: the test is not effective", links, names)
	}
}
