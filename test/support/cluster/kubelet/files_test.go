package kubelet

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that was opened by way of the link before a change can still be read, and a volume does not grow with changes.
func TestVolumeChanges(t *testing.T) {
	dir := t.TempDir()
	write := func(f files) string {
		t.Helper()
		if err := f.replaceIn(dir); err != nil {
			t.Fatal(err)
		}
		generation, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		return generation
	}
	with := func(text string) files {
		f := files{}
		f.addFile("deep/a", text, nil)
		return f
	}
	first := write(with("1"))
	if again := write(with("1")); again != first {
		t.Error("the same files are written again")
	}
	extra := with("2")
	extra.addFile("b", "b", nil)
	second := write(extra)
	if text, err := os.ReadFile(filepath.Join(dir, first, "deep", "a")); string(text) != "1" {
		t.Errorf("the previous version has %q (%v)", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "deep", "a")); string(text) != "2" {
		t.Errorf("there is %q (%v)", text, err)
	}
	write(with("3"))
	if _, err := os.Lstat(filepath.Join(dir, "b")); !os.IsNotExist(err) {
		t.Errorf("a deleted file still exists: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 { // ..data, deep, this generation and the one before
		t.Errorf("the volume has %v", entries)
	}
	if _, err := os.Stat(filepath.Join(dir, second)); err != nil {
		t.Error(err)
	}
}
