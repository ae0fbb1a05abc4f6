package patch

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestExtensionsAreComplete compares extensions.go with the packages of the pinned
// go-control-plane.
func TestExtensionsAreComplete(t *testing.T) {
	const module = "github.com/envoyproxy/go-control-plane/envoy"
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	source, err := os.ReadFile("extensions.go")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, top := range []string{"config", "extensions"} {
		err := filepath.WalkDir(filepath.Join(dir, top), func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".pb.go") {
				return err
			}
			rel, err := filepath.Rel(dir, filepath.Dir(file))
			if err != nil {
				return err
			}
			pkg := filepath.ToSlash(rel)
			if strings.HasPrefix(path.Base(pkg), "v2") || strings.Contains(pkg, "config/filter/") {
				return nil // of version 2 of the API
			}
			count++
			if !strings.Contains(string(source), `"`+module+"/"+pkg+`"`) {
				t.Errorf("extensions.go lacks %s", pkg)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 300 {
		t.Errorf("only %d files were found: the test is not effective", count)
	}
}
