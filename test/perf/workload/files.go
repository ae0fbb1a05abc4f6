package workload

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// RenderFile returns the content of one file of the mesh, nil if nothing is left in it.
func (m *Mesh) RenderFile(name string) ([]byte, error) {
	var b bytes.Buffer
	for i, o := range m.files[name] {
		if i > 0 {
			b.WriteString("---\n")
		}
		doc, err := o.renderYAML()
		if err != nil {
			return nil, err
		}
		b.Write(doc)
	}
	return b.Bytes(), nil
}

// WriteDir writes the whole mesh under a directory.
func (m *Mesh) WriteDir(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		b, err := m.RenderFile(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write a mesh: %w", err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return fmt.Errorf("write a mesh: %w", err)
		}
	}
	return m.params.writeFile(dir)
}
