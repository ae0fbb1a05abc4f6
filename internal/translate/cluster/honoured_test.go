package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestEveryFieldOfDestinationRule: for every field of the API a case shows its effect on clusters.
func TestEveryFieldOfDestinationRule(t *testing.T) {
	shown := fieldsOfCases(t, "testdata/*.txtar", "../endpoint/testdata/*.txtar")
	for _, path := range config.LeafPaths(new(networking.DestinationRule)) {
		if !shown[groupPath(path)] {
			t.Errorf("no case sets %s", path)
		}
	}
}

// groupPath returns the path of a field in the policy of the host. The same code translates
// policies at all four levels; the cases subsets and port_level_settings show their precedence.
func groupPath(path string) string {
	for _, level := range []string{
		"subsets.trafficPolicy.portLevelSettings.", "subsets.trafficPolicy.",
		"trafficPolicy.portLevelSettings.",
	} {
		if rest, ok := strings.CutPrefix(path, level); ok && rest != "port.number" {
			return "trafficPolicy." + rest
		}
	}
	return strings.Replace(path, "subsets.trafficPolicy.", "trafficPolicy.", 1)
}

// fieldsOfCases collects the paths of all fields that the DestinationRules of golden cases set.
func fieldsOfCases(t *testing.T, globs ...string) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	for _, glob := range globs {
		paths, err := filepath.Glob(glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no cases at %q: %v", glob, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range txtar.Parse(text).Files {
				if f.Name != "config.yaml" {
					continue
				}
				list, err := fixture.Decode(f.Data)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					if c.Kind == api.DestinationRule {
						collect("", config.Spec[*networking.DestinationRule](c).ProtoReflect(), shown)
					}
				}
			}
		}
	}
	return shown
}

func collect(prefix string, m protoreflect.Message, into map[string]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := strings.TrimPrefix(prefix+"."+f.JSONName(), ".")
		into[groupPath(path)] = true
		switch {
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				collect(path, v.List().Get(i).Message(), into)
			}
		default:
			collect(path, v.Message(), into)
		}
		return true
	})
}
