package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checkNamedTests reports each link [TestName](../package) of a document in docs whose test does
// not exist, and returns the number of such links.
func checkNamedTests(t *testing.T, document, text string) int {
	t.Helper()
	links := regexp.MustCompile(`\[((?:Test|Fuzz)\w+)\]\(\.\./([\w/-]+)\)`).FindAllStringSubmatch(text, -1)
	sources := map[string]string{}
	for _, l := range links {
		name, pkg := l[1], l[2]
		if _, read := sources[pkg]; !read {
			files, err := filepath.Glob("../../" + pkg + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[pkg] += string(b)
			}
		}
		if !strings.Contains(sources[pkg], "func "+name+"(") {
			t.Errorf("%s: no %s in %s", document, name, pkg)
		}
	}
	return len(links)
}

// TestPilotThroughTime: each row of docs/PILOT-THROUGH-TIME.md names a test, a command of
// docs/PILOTCTL.md or another document by which the successor of the part can be seen, and these
// exist.
func TestPilotThroughTime(t *testing.T) {
	const document = "docs/PILOT-THROUGH-TIME.md"
	text, err := os.ReadFile("../../" + document)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile("../../docs/PILOTCTL.md")
	if err != nil {
		t.Fatal(err)
	}
	checkNamedTests(t, document, string(text))
	rows := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(text), -1) {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if strings.HasPrefix(row, "|---") || strings.HasPrefix(row, "| part |") {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Errorf("%s: want four columns: %s", document, row)
			continue
		}
		commands := regexp.MustCompile("`(pilotctl [a-z -]+)`").FindAllStringSubmatch(cells[3], -1)
		if len(commands) == 0 && !strings.Contains(cells[3], "](") {
			t.Errorf("%s: nothing shows %s", document, row)
		}
		for _, c := range commands {
			if !strings.Contains(string(reference), "\n### "+c[1]+"\n") {
				t.Errorf("%s: no command %s", document, c[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("%s has %d rows", document, rows)
	}
}
