package decode

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// partialSpec is a spec without the values that cannot be decoded.
type partialSpec struct {
	spec any
	// removed has the paths of these values.
	removed map[string]bool
}

// newPartialSpec decodes a tree from which the wrong values were removed. It returns nil if the
// rest cannot be decoded, for instance because the tree is not an object.
func newPartialSpec(info api.KindInfo, tree any, removed map[string]bool) *partialSpec {
	body, err := json.Marshal(tree)
	if err != nil {
		return nil
	}
	spec := info.NewSpec()
	if protojson.Unmarshal(body, spec) != nil {
		return nil
	}
	return &partialSpec{spec: spec, removed: removed}
}

// setPartial sets Partial to the object without its wrong values, and adds the Problems of its
// validation. It skips Problems that only a removed value may cause. It does nothing if the object
// cannot be encoded.
func (d *Decoded) setPartial(meta metav1.Object, partial *partialSpec, status *config.Status) {
	c, err := config.New(d.metaOf(meta, status), partial.spec)
	if err != nil {
		return
	}
	d.Partial = c
	for _, p := range config.Validate(c) {
		if !partial.explains(p) {
			d.Problems = append(d.Problems, p)
		}
	}
}

// explains reports whether a Problem may only be due to a removed value: it is at, above or below
// the path of one. It is also true for a missing field in the object that contained the value.
func (s *partialSpec) explains(p config.Problem) bool {
	for path := range s.removed {
		if isAtOrBelow(p.Field, path) || isAtOrBelow(path, p.Field) {
			return true
		}
		if at := strings.LastIndex(path, "."); at > 0 && parentPath(p.Field) == path[:at] && isAboutAbsence(p.Reason) {
			return true
		}
	}
	return false
}

// isAboutAbsence reports whether the reason of a Problem is that a field is not set or is empty: it
// contains "required" or begins with "is empty".
func isAboutAbsence(reason string) bool {
	return strings.Contains(reason, "required") || strings.HasPrefix(reason, "is empty")
}

// parentPath returns a path without its last field, index or key, or "" for a path of one step.
func parentPath(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// isAtOrBelow reports whether path is the path parent or the path of something inside it. "a.bc" is
// not below "a.b".
func isAtOrBelow(path, parent string) bool {
	rest, found := strings.CutPrefix(path, parent)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// emptyItem returns the JSON of an empty item of a list, by the type of the list's items. It
// replaces a wrong item. Numbers and enums become 0, strings and bytes "", bools false, durations
// "0s", and a ListValue an empty list. Other messages become an empty object, also wrapped numbers.
func emptyItem(fd protoreflect.FieldDescriptor) any {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Duration":
			return "0s"
		case "google.protobuf.StringValue", "google.protobuf.BytesValue":
			return ""
		case "google.protobuf.BoolValue":
			return false
		case "google.protobuf.ListValue":
			return []any{}
		default:
			return map[string]any{}
		}
	case protoreflect.StringKind, protoreflect.BytesKind:
		return ""
	case protoreflect.BoolKind:
		return false
	default:
		return json.Number("0")
	}
}
