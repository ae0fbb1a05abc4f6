package listener

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/testkit/fixture"
)

// The lists in testdata say of every field of an API message what becomes of it: the case that shows it at work here and
// sets it, "reported", or "@room" for another room that follows it. A line holds for all fields below, unless a longer one
// does.

func TestEveryFieldOfSidecarIsHonouredOrReported(t *testing.T) {
	checkFields(t, "testdata/sidecar_fields.txt", new(networking.Sidecar),
		func(m proto.Message) []config.Problem { return UnhonouredSidecar(m.(*networking.Sidecar)) },
		func(t *testing.T, a *txtar.Archive) []proto.Message { return specsOf(t, a, api.Sidecar) })
}

func TestEveryFieldOfMeshConfigIsHonouredOrReported(t *testing.T) {
	checkFields(t, "testdata/mesh_fields.txt", new(meshconfig.MeshConfig),
		func(m proto.Message) []config.Problem { return UnhonouredMesh(m.(*meshconfig.MeshConfig)) },
		func(t *testing.T, a *txtar.Archive) []proto.Message {
			m, err := mesh.ParseMeshConfig(section(a, "mesh.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			return []proto.Message{m}
		})
	for line, by := range list(t, "testdata/mesh_fields.txt") {
		here := by != "reported" && !strings.HasPrefix(by, "@")
		if here != MeshFields().Covers(line) {
			t.Errorf("%s is %s in the list, and among MeshFields: %v", line, by, !here)
		}
	}
}

// TestRoutesOfConnectionsAreHonoured does the same for the part of VirtualService that is the listeners'.
func TestRoutesOfConnectionsAreHonoured(t *testing.T) {
	checkFields(t, "testdata/virtualservice_fields.txt", new(networking.VirtualService),
		func(proto.Message) []config.Problem { return nil },
		func(t *testing.T, a *txtar.Archive) []proto.Message { return specsOf(t, a, api.VirtualService) })
}

func checkFields(t *testing.T, path string, m proto.Message, report func(proto.Message) []config.Problem, in func(*testing.T, *txtar.Archive) []proto.Message) {
	t.Helper()
	lines, used := list(t, path), map[string]bool{}
	for _, leaf := range config.Leaves(m) {
		line := leaf
		for lines[line] == "" && line != "" {
			line = line[:max(strings.LastIndexByte(line, '.'), 0)]
		}
		used[line] = true
		switch by := lines[line]; {
		case by == "":
			t.Errorf("%s is not in %s", leaf, path)
		case by == "reported":
			if !reports(report(with(m, leaf)), leaf) {
				t.Errorf("%s is not reported", leaf)
			}
		case reports(report(with(m, leaf)), leaf):
			t.Errorf("%s is reported, and %s is to honour it", leaf, by)
		case !strings.HasPrefix(by, "@"):
			if !setIn(t, by, leaf, in) {
				t.Errorf("%s: its case %s does not set it", leaf, by)
			}
		}
	}
	for line := range lines {
		if !used[line] {
			t.Errorf("%s: nothing is %s", path, line)
		}
	}
}

func list(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) == 2 && words[0] != "#" {
			lines[words[0]] = words[1]
		}
	}
	return lines
}

var index = regexp.MustCompile(`\[[^]]*\]`)

// reports says whether a leaf, or something above it, is among the Problems.
func reports(list []config.Problem, leaf string) bool {
	for _, p := range list {
		field := strings.TrimPrefix(index.ReplaceAllString(p.Field, ""), "spec.")
		if p.Severity == config.Warning && p.Reason != "" && (config.Fields{field}).Covers(leaf) {
			return true
		}
	}
	return false
}

// with gives a message of the type of m in which only one field is set, to a value that is not its default.
func with(m proto.Message, path string) proto.Message {
	out := m.ProtoReflect().New()
	at := out
	names := strings.Split(path, ".")
	for i, name := range names {
		f := at.Descriptor().Fields().ByJSONName(name)
		switch {
		case i == len(names)-1:
			set(at, f)
		case f.IsList():
			at = at.Mutable(f).List().AppendMutable().Message()
		default:
			at = at.Mutable(f).Message()
		}
	}
	return out.Interface()
}

func set(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsMap():
		values := m.Mutable(f).Map()
		values.Set(protoreflect.ValueOfString("k").MapKey(), value(f.MapValue(), values.NewValue()))
	case f.IsList():
		values := m.Mutable(f).List()
		values.Append(value(f, values.NewElement()))
	default:
		m.Set(f, value(f, m.NewField(f)))
	}
}

func value(f protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(f.Enum().Values().Len() - 1).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	default:
		return empty
	}
}

// setIn says whether a message in a case sets a field.
func setIn(t *testing.T, name, leaf string, in func(*testing.T, *txtar.Archive) []proto.Message) bool {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range in(t, a) {
		if isSet(m.ProtoReflect(), strings.Split(leaf, ".")) {
			return true
		}
	}
	return false
}

func isSet(m protoreflect.Message, path []string) bool {
	f := m.Descriptor().Fields().ByJSONName(path[0])
	switch {
	case !m.Has(f):
		return false
	case len(path) == 1:
		return true
	case !f.IsList():
		return isSet(m.Get(f).Message(), path[1:])
	}
	for i := range m.Get(f).List().Len() {
		if isSet(m.Get(f).List().Get(i).Message(), path[1:]) {
			return true
		}
	}
	return false
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// specsOf gives the specs of the objects of a kind in a case.
func specsOf(t *testing.T, a *txtar.Archive, kind api.Kind) []proto.Message {
	t.Helper()
	objects, err := fixture.Decode(section(a, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []proto.Message
	for _, c := range objects {
		if c.Kind == kind {
			out = append(out, c.Spec.(proto.Message))
		}
	}
	return out
}
