package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestInto(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	for range 2 { // the second time finds the first one's in its place
		if err := Into(t.Context(), dir, "samples/bookinfo/app"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "bookinfo"), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Bookinfo") {
		t.Errorf("%v: %s", err, out)
	}
	built, err := Build(t.Context(), "samples/bookinfo/app")
	if err != nil {
		t.Fatal(err)
	}
	a, err := os.Stat(built)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Build(t.Context(), "samples/bookinfo/app")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(b); err != nil || !os.SameFile(a, again) {
		t.Errorf("%v: it was linked again", err)
	}
	if err := Into(t.Context(), dir, "no/such/program"); err == nil || !strings.Contains(err.Error(), "build no/such/program: ") {
		t.Errorf("error %v", err)
	}
}

func TestProgramsOfDeletedCheckouts(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	var dirs []string
	for _, root := range []string{first, second} {
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		dir, err := cacheDir(root)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if _, err := cacheDir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
		t.Errorf("%v: the programs of a deleted checkout still exist", err)
	}
	if _, err := os.Stat(dirs[1]); err != nil {
		t.Errorf("%v: the programs of an existing checkout were removed", err)
	}
}
