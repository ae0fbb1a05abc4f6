package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/testkit/fixture"
)

// TestEveryFieldOfDestinationRule holds every field of the API to one of two: a case sets it, and so shows what is made of
// it, or a user who sets it is told that it is not honoured.
func TestEveryFieldOfDestinationRule(t *testing.T) {
	shown := fieldsOfCases(t, "testdata/*.txtar", "../endpoint/testdata/*.txtar")
	for path := range elsewhere() {
		shown[path] = true
	}
	honoured := ruleFields()
	for _, path := range config.Leaves(new(networking.DestinationRule)) {
		switch covered := honoured.Covers(path); {
		case covered && !shown[groupPath(path)]:
			t.Errorf("%s is honoured, but no case sets it", path)
		case !covered && !told(t, path):
			t.Errorf("%s is not honoured, and setting it gives no Problem", path)
		}
	}
}

// elsewhere are fields that are followed outside these rooms, with the test that shows it.
func elsewhere() map[string]string {
	return map[string]string{
		"exportTo": "internal/snapshot: which rules a namespace sees",
	}
}

// groupPath gives the path of a field in the policy of the host. What a policy says is followed by the same code at all
// four levels; that the levels count as they should is shown by the cases subsets and port_level_settings.
func groupPath(path string) string {
	for _, level := range []string{"subsets.trafficPolicy.portLevelSettings.", "subsets.trafficPolicy.", "trafficPolicy.portLevelSettings."} {
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

// told makes a rule in which only the field at the path is set, and says whether it gives a Problem about that field or
// something above it.
func told(t *testing.T, path string) bool {
	t.Helper()
	spec := new(networking.DestinationRule)
	m := spec.ProtoReflect()
	parts := strings.Split(path, ".")
	for i, part := range parts {
		f := m.Descriptor().Fields().ByJSONName(part)
		if f == nil {
			t.Fatalf("%s: no field %q", path, part)
		}
		if i == len(parts)-1 {
			setSomething(m, f)
			break
		}
		if f.IsList() {
			m = m.Mutable(f).List().AppendMutable().Message()
		} else {
			m = m.Mutable(f).Message()
		}
	}
	for _, p := range Unhonoured(spec) {
		field := strings.ReplaceAll(strings.TrimPrefix(p.Field, "spec."), "[0]", "")
		if p.Severity == config.Warning && p.Reason != "" && (field == path || strings.HasPrefix(path, field+".")) {
			return true
		}
	}
	return false
}

func setSomething(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsMap():
		m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString("v"))
	case f.IsList() && f.Message() != nil:
		m.Mutable(f).List().AppendMutable()
	case f.Message() != nil:
		m.Mutable(f)
	case f.IsList():
		l := m.Mutable(f).List()
		l.Append(something(l.NewElement()))
	default:
		m.Set(f, something(m.NewField(f)))
	}
}

// something gives a value other than the zero one, of the kind of v.
func something(v protoreflect.Value) protoreflect.Value {
	switch v.Interface().(type) {
	case string:
		return protoreflect.ValueOfString("something")
	case bool:
		return protoreflect.ValueOfBool(true)
	case int32:
		return protoreflect.ValueOfInt32(1)
	case uint32:
		return protoreflect.ValueOfUint32(1)
	case uint64:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.EnumNumber:
		return protoreflect.ValueOfEnum(1)
	default:
		panic(fmt.Sprintf("no value of kind %T", v.Interface()))
	}
}
