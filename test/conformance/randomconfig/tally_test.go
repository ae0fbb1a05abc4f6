package randomconfig

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// tally counts the effects of random objects, because a test whose objects have no effect proves
// nothing.
type tally struct {
	valid, shaping map[api.Kind]int
	// set are the fields that some valid object sets, by kind: paths as config.Leaves returns them.
	set map[api.Kind]map[string]bool
}

func newTally() *tally {
	return &tally{valid: map[api.Kind]int{}, shaping: map[api.Kind]int{}, set: map[api.Kind]map[string]bool{}}
}

func (y *tally) add(objects []*config.Config) {
	for _, o := range objects {
		y.valid[o.Kind]++
		if y.set[o.Kind] == nil {
			y.set[o.Kind] = map[string]bool{}
		}
		collect(o.Spec.(proto.Message).ProtoReflect(), "", y.set[o.Kind])
	}
}

// shaped records which of the objects affected resources.
func (y *tally) shaped(objects []*config.Config, shaped map[config.Key]bool) {
	for _, o := range objects {
		if shaped[o.Key] {
			y.shaping[o.Kind]++
		}
	}
}

// inForce returns the kinds that affect resources, and how many of a hundred random objects of each
// must have an effect.
func inForce() map[api.Kind]int {
	return map[api.Kind]int{api.VirtualService: 20, api.DestinationRule: 20, api.ServiceEntry: 40, api.Sidecar: 1}
}

func (y *tally) report(t *testing.T) {
	t.Helper()
	total := 0
	for kind, n := range y.valid {
		total += n
		if least, ok := inForce()[kind]; ok && *meshes >= 50 && y.shaping[kind]*100 < n*least {
			t.Errorf("only %d of %d objects of kind %s shape anything", y.shaping[kind], n, kind)
		}
		info, _ := api.Info(kind)
		var never []string
		for _, leaf := range config.LeafPaths(info.NewSpec()) {
			if !y.set[kind][leaf] {
				never = append(never, leaf)
			}
		}
		t.Logf("%s: %d objects, of which %d shape something; never set: %s", kind, n, y.shaping[kind], strings.Join(never, ", "))
	}
	if want := *meshes * each * 9 / 10; total < want {
		t.Errorf("only %d of the random objects are valid, want %d", total, want)
	}
}

// collect notes the fields that a message sets.
func collect(m protoreflect.Message, above string, set map[string]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := strings.TrimPrefix(above+"."+f.JSONName(), ".")
		set[path] = true
		var below []protoreflect.Value
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				below = append(below, v.List().Get(i))
			}
		default:
			below = slices.Concat(below, []protoreflect.Value{v})
		}
		for _, b := range below {
			collect(b.Message(), path, set)
		}
		return true
	})
}
