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
		t.Errorf("%v: it was linked once more", err)
	}
	if err := Into(t.Context(), dir, "no/such/program"); err == nil || !strings.Contains(err.Error(), "build no/such/program: ") {
		t.Errorf("error %v", err)
	}
}
