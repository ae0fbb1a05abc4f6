package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestReadManifestsThroughLinks names a directory by a link, which is read. It has links to a file,
// which is read too, to a directory, with a warning, and to nothing.
func TestReadManifestsThroughLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(target, "sub"), 0o700),
		os.WriteFile(filepath.Join(target, "sub", "a.yaml"), nil, 0o600),
		os.Symlink(target, link),
		os.Symlink(filepath.Join("sub", "a.yaml"), filepath.Join(target, "b.yaml")),
		os.Symlink("sub", filepath.Join(target, "c")),
		os.Symlink("missing", filepath.Join(target, "missing")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, warnings := new(cobra.Command), new(bytes.Buffer)
	c.SetErr(warnings)
	files, err := readManifests(c, []string{link})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{filepath.Join(link, "b.yaml"), filepath.Join(link, "sub", "a.yaml")}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want := "warning: " + filepath.Join(link, "c") + " is not read: it is a link to a directory\n"
	if diff := cmp.Diff(want, warnings.String()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
