package laptop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/document"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// firstTask starts the mesh of the other tasks.
const firstTask = "index.md"

// TestTasks runs the commands of docs/tasks in one mesh: of the first page, which starts the mesh,
// and then of each task. Output that a page shows must be the output of the commands before it.
// Each task removes its rules, so that the next one finds the mesh as it was.
func TestTasks(t *testing.T) {
	require(t)
	s := newSession(t, nil)
	root, err := program.Root()
	if err == nil {
		err = os.CopyFS(s.path("samples/tasks"), os.DirFS(filepath.Join(root, "samples/tasks")))
	}
	if err == nil {
		err = program.Into(t.Context(), s.path("bin"), "samples/tasks/ratelimit")
	}
	if err != nil {
		t.Fatal(err)
	}
	port := serving.FreePort(t)
	s.server = fmt.Sprintf("127.0.0.1:%d", port)
	pages, err := filepath.Glob(filepath.Join(root, "docs/tasks/*.md"))
	if err != nil || len(pages) < 2 {
		t.Fatalf("docs/tasks has the pages %q, %v", pages, err)
	}
	first := filepath.Join(root, "docs/tasks", firstTask)
	pages = append([]string{first}, slices.DeleteFunc(pages, func(page string) bool { return page == first })...)
	for _, page := range pages {
		ok := t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			before := s.files("mesh")
			runPage(t, s, page, port)
			if after := s.files("mesh"); page != first && !slices.Equal(before, after) {
				t.Errorf("the task has left the files %q, before there were %q", after, before)
			}
		})
		if !ok && page == first {
			return
		}
	}
}

// runPage runs the commands of a page in one shell, which ends at the first that fails, and
// compares their output.
func runPage(t *testing.T, s *session, page string, port int) {
	t.Helper()
	blocks, err := document.ParseCommands(document.ReadContent(t, page))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("%s has %d blocks of commands: %v", page, len(blocks), err)
	}
	dir := t.TempDir()
	output := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	var script strings.Builder
	script.WriteString("set -eo pipefail\n")
	for i, b := range blocks {
		commands := strings.ReplaceAll(b.Commands, "mesh up -f", fmt.Sprintf("mesh up --port %d -f", port))
		fmt.Fprintf(&script, "exec > '%s' 2>&1\n%s\n", output(i), commands)
	}
	cmd := s.command("bash", "-c", script.String())
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	failure := cmd.Run()
	for i, b := range blocks {
		got, err := os.ReadFile(output(i))
		if err != nil {
			t.Fatalf("the commands in line %d were not run: %v", b.Line, failure)
		}
		if b.Output != nil && !document.MatchesOutput(*b.Output, string(got)) {
			t.Errorf("line %d: the output is\n%s\nwant\n%s", b.Line, got, *b.Output)
		}
		if _, err := os.Stat(output(i + 1)); failure != nil && err != nil {
			t.Fatalf("the commands in line %d failed: %v\n%s", b.Line, failure, got)
		}
	}
}

// files returns the files in a directory of the session.
func (s *session) files(dir string) (names []string) {
	entries, _ := os.ReadDir(s.path(dir)) // it does not exist before the first task
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
