package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// readMeshConfig returns the text of a file with the mesh configuration, or nil if path is "". It
// prints a warning for each part of it that has no effect, but does not validate it. A file that
// cannot be read is an error.
func readMeshConfig(c *cobra.Command, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	warnMeshConfig(c, path, text)
	return text, nil
}

// warnMeshConfig prints a warning to standard error for each part of a mesh configuration that has
// no effect: unknown and retired fields, and repeated keys. name is its place.
func warnMeshConfig(c *cobra.Command, name string, text []byte) {
	for _, p := range mesh.MeshConfigWarnings(text) {
		p.Origin = name
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "warning:", p) // a failed warning is ignored
	}
}
