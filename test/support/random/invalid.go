package random

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// InvalidFields returns the paths of the fields of an object's spec that validation refuses, in the
// form that Mend expects.
func InvalidFields(c *config.Config) []string {
	var paths []string
	for _, p := range config.Validate(c) {
		if p.Severity == config.Error {
			paths = append(paths, strings.TrimPrefix(strings.TrimPrefix(p.Field, "spec"), "."))
		}
	}
	return paths
}
