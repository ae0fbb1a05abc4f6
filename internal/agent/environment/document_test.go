package environment

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/document"
)

// TestDocument compares docs/ENVIRONMENT-AGENT.md with the variable names in this folder.
func TestDocument(t *testing.T) {
	read := document.FindNames(document.ReadSources(t), regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)"`))
	said := document.FindNames(document.ReadContent(t, "../../../docs/ENVIRONMENT-AGENT.md"), regexp.MustCompile("`([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)`"))
	for name := range said { // variables with a common prefix are read by the prefix
		if (strings.HasSuffix(name, "_NAME") || strings.HasPrefix(name, metaJSONPrefix)) && !read[name] {
			delete(said, name)
		}
	}
	delete(said, "PROXY_CONFIG") // read by the command
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), slices.Sorted(maps.Keys(said))); diff != "" {
		t.Errorf("docs/ENVIRONMENT-AGENT.md (-is +said):\n%s", diff)
	}
}
