package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// update is a flag of the test binary, and must exist before the testing package parses them.
var update = flag.Bool("update", false, "rewrite the expected sections of golden files")

// Case is one golden file.
type Case struct {
	// Name is the file's name without its extension.
	Name string
	// Shows is the text before the first section: what the case shows.
	Shows string

	archive *txtar.Archive
	used    map[string]bool
	changed bool
}

// Run makes a subtest of every file that the glob finds, in the order of their names. No file at
// all is a failure. With -update the sections given to Compare are rewritten instead of compared.
func Run(t *testing.T, glob string, check func(t *testing.T, c *Case)) {
	t.Helper()
	paths, err := filepath.Glob(glob)
	if err != nil || len(paths) == 0 {
		t.Fatalf("golden files %q: found %d, error %v", glob, len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		t.Run(name, func(t *testing.T) {
			t.Helper()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c := &Case{
				Name:    name,
				Shows:   strings.TrimSpace(string(archive.Comment)),
				archive: archive,
				used:    map[string]bool{},
			}
			if c.Shows == "" {
				t.Errorf("%s: no description before the first section", path)
			}
			check(t, c)
			c.finishCase(t, path)
		})
	}
}

// finishCase fails a case with unread sections, and writes the file if Compare changed it.
func (c *Case) finishCase(t *testing.T, path string) {
	t.Helper()
	if t.Failed() || t.Skipped() {
		return
	}
	for _, f := range c.archive.Files {
		if !c.used[f.Name] {
			t.Errorf("%s: section %q is neither input nor output", path, f.Name)
		}
	}
	if c.changed && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(c.archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Has reports whether the case has a section of that name.
func (c *Case) Has(section string) bool { return c.findSection(section) != nil }

// Input returns a section's text, nil if the case does not have it.
func (c *Case) Input(section string) []byte {
	f := c.findSection(section)
	if f == nil {
		return nil
	}
	c.used[section] = true
	return f.Data
}

// Sections returns the names of all sections, in the order of the file.
func (c *Case) Sections() []string {
	names := make([]string, len(c.archive.Files))
	for i, f := range c.archive.Files {
		names[i] = f.Name
	}
	return names
}

// AllowUnread declares that the caller reads only some sections: unread sections then do not fail the
// case.
func (c *Case) AllowUnread() {
	for _, f := range c.archive.Files {
		c.used[f.Name] = true
	}
}

// Compare compares got with the section of that name; with -update it becomes the section. A
// missing section is empty, so that a case need not mention empty outputs.
func (c *Case) Compare(t *testing.T, section string, got []byte) {
	t.Helper()
	c.used[section] = true
	f := c.findSection(section)
	var want []byte
	if f != nil {
		want = f.Data
	}
	if len(got) > 0 && !bytes.HasSuffix(got, []byte("\n")) {
		got = append(bytes.Clone(got), '\n')
	}
	if bytes.Equal(want, got) {
		return
	}
	if !*update {
		t.Errorf("section %q differs (-want +got; go test -update rewrites it):\n%s", section,
			cmp.Diff(string(want), string(got)))
		return
	}
	c.changed = true
	if f == nil {
		c.archive.Files = append(c.archive.Files, txtar.File{Name: section, Data: got})
		return
	}
	f.Data = got
}

func (c *Case) findSection(name string) *txtar.File {
	for i := range c.archive.Files {
		if c.archive.Files[i].Name == name {
			return &c.archive.Files[i]
		}
	}
	return nil
}
