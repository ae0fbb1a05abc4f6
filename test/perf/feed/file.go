package feed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// File changes files in a directory that the control plane watches.
type File struct {
	mesh *workload.Mesh
	dir  string
}

var _ Feed = (*File)(nil)

// NewFile writes the mesh to a directory and feeds it from there.
func NewFile(m *workload.Mesh, dir string) (*File, error) {
	if err := m.WriteDir(dir); err != nil {
		return nil, err
	}
	return &File{mesh: m, dir: dir}, nil
}

// Apply renames the file of the object into place, or removes it with its last object. The new file
// is made next to the watched directory, not in it, so that the rename is the only event.
func (f *File) Apply(e workload.Edit, begin func()) error {
	name := e.Object.File()
	content, err := f.mesh.RenderFile(name)
	if err != nil {
		return err
	}
	path := filepath.Join(f.dir, name)
	if len(content) == 0 {
		begin()
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("feed a change: %w", err)
		}
		return nil
	}
	temporary := filepath.Clean(f.dir) + ".next"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("feed a change: %w", err)
	}
	begin()
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("feed a change: %w", err)
	}
	return nil
}

// Close leaves the files as they are.
func (f *File) Close() {}
