package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Concurrent requests for a program return the same one, built once.
func TestProgramsAreBuiltOnce(t *testing.T) {
	sources := t.TempDir()
	module := filepath.Join(sources, "coredns")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module coredns\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { println(\"hello\") }\n"} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var said []string
	keepBuildCache(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	programs := func() *Programs {
		return &Programs{sources: sources, say: func(format string, _ ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, format)
		}}
	}
	paths := make([]string, 4)
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() {
			path, err := programs().Path(t.Context(), "coredns")
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	all.Wait()
	if len(said) != 1 {
		t.Errorf("it was built %d times", len(said))
	}
	for _, path := range paths {
		if path != paths[0] {
			t.Errorf("paths are %v", paths)
		}
	}
	if _, err := os.Stat(paths[0]); err != nil {
		t.Error(err)
	}
	// Another source is another program.
	if err := os.WriteFile(filepath.Join(module, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := programs().Path(t.Context(), "coredns"); err != nil || path == paths[0] {
		t.Errorf("after a change it is %s (%v)", path, err)
	}
	if _, err := programs().Path(t.Context(), "kubedns"); err == nil || !strings.Contains(err.Error(), `no program "kubedns"`) {
		t.Errorf("error for an unknown program = %v", err)
	}
}

// keepBuildCache fixes GOCACHE. By default the go command derives it from XDG_CACHE_HOME, and in an
// empty directory it compiles the standard library first, which takes most of a minute.
func keepBuildCache(t *testing.T) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
}
