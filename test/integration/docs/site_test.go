package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// limit bounds a build of the site, with the installation of MkDocs the first time.
const limit = 5 * time.Minute

// build builds the site of a checkout into a directory. It returns MkDocs' messages. Without the
// programs that install MkDocs the test is skipped, unless CI=true.
func build(t *testing.T, checkout, dir string) (string, error) {
	t.Helper()
	_, err := exec.LookPath("npm")
	if err == nil {
		err = exec.Command("python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))").Run()
	}
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("`make docs` needs npm, and Python 3.11 with venv: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(checkout, "hack/docs/build.sh"), dir).CombinedOutput()
	return string(out), err
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestSite builds the site: documents are pages, lists are lists, no page loads anything from
// another host, and Mermaid can read every diagram.
func TestSite(t *testing.T) {
	longtest.Test(t)
	root, dir := checkout(t), t.TempDir()
	if out, err := build(t, root, dir); err != nil {
		t.Fatalf("make docs: %v\n%s", err, out)
	}
	for _, page := range []string{
		"index.html", "CONTRIBUTING.html", "LAPTOP.html", "install/kubernetes.html", "runbooks/MeshpilotDown.html",
	} {
		if _, err := os.Stat(filepath.Join(dir, page)); err != nil {
			t.Error(err)
		}
	}
	var diagrams []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, loaded := range loading.FindAllString(string(text), -1) {
			t.Errorf("%s loads %s", path, loaded)
		}
		for _, p := range paragraph.FindAllString(string(text), -1) {
			if listInText.MatchString(p) {
				t.Errorf("%s has a list or table that is rendered as text; it needs an empty line before it: %s", path, p)
			}
		}
		for _, m := range diagram.FindAllStringSubmatch(string(text), -1) {
			diagrams = append(diagrams, html.UnescapeString(m[1]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(diagrams) < 4 {
		t.Fatalf("the site has %d diagrams", len(diagrams))
	}
	checkDiagrams(t, filepath.Join(dir, "assets/mermaid.min.js"), diagrams)
}

var (
	diagram = regexp.MustCompile(`(?s)<pre class="mermaid"><code>(.*?)</code></pre>`)
	// loading matches elements that a browser loads with the page. Links are not loaded.
	loading = regexp.MustCompile(`<(?:script|img|iframe|link [^>]*rel="(?:stylesheet|preconnect|icon)")` +
		`[^>]*(?:src|href)="(https?:)?//[^"]*"`)
	paragraph  = regexp.MustCompile(`(?s)<p>.*?</p>`)
	listInText = regexp.MustCompile(`\n\s*(?:[-*] |\d+\. |\|)`)
)

// checkDiagrams has Mermaid parse each diagram, in Chromium. Without Chromium it does nothing, or
// fails if CI=true.
func checkDiagrams(t *testing.T, script string, diagrams []string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Error("Chromium is missing: apt-get install chromium")
		}
		return
	}
	texts, err := json.Marshal(append(slices.Clone(diagrams), "flowchart LR\n a -->"))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "diagrams.html")
	const template = `<body><script src="file://%s"></script><script>(async () => {
		const results = [];
		for (const text of %s) {
			try { await mermaid.parse(text); results.push('parsed'); } catch (e) { results.push(String(e)); }
		}
		document.body.innerHTML = ''; document.body.textContent = 'RESULTS' + JSON.stringify(results) + 'END';
	})()</script></body>`
	if err := os.WriteFile(page, fmt.Appendf(nil, template, script, texts), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=20000", "--dump-dom", "file://"+page).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(out), "RESULTS")
	text, _, _ = strings.Cut(text, "END")
	var results []string
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &results); err != nil || len(results) != len(diagrams)+1 {
		t.Fatalf("Mermaid's results: %v\n%s", err, out)
	}
	for i, d := range diagrams {
		if results[i] != "parsed" {
			t.Errorf("%s\n%s", results[i], d)
		}
	}
	if results[len(diagrams)] == "parsed" {
		t.Error("Mermaid has parsed a diagram with an error: the test is not effective")
	}
}

// TestBrokenLinks builds a site with a broken link and a broken anchor: it fails, and names them
// with their document.
func TestBrokenLinks(t *testing.T) {
	longtest.Test(t)
	root, dir := checkout(t), t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		from, to := filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())
		switch e.Name() {
		case "docs":
			err = os.CopyFS(to, os.DirFS(from))
		case "mkdocs.yml":
			err = program.PlaceFile(from, to)
		default:
			err = os.Symlink(from, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.OpenFile(filepath.Join(dir, "docs/install/index.md"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = page.WriteString("\n[a](../NO-SUCH.md) [b](../GLOSSARY.md#no-such) [c](../../samples/no-such)\n")
	if err := errors.Join(err, page.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := build(t, dir, filepath.Join(dir, "site"))
	if err == nil {
		t.Error("the build has not failed")
	}
	for _, want := range []string{"NO-SUCH.md", "no-such'", "samples/no-such", "3 warnings"} {
		if !strings.Contains(out, want) || !strings.Contains(out, "install/index.md") {
			t.Errorf("MkDocs does not report %q:\n%s", want, out)
		}
	}
}
