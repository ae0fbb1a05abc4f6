package xds

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unknownPart returns the path of a field or enum value in a spec that this version does not know,
// with the reason; both are "" if there is none. Such objects are refused, as in files, because a
// partially applied policy may allow what the complete one denies.
func unknownPart(spec proto.Message) (at, reason string) {
	// The walk returns only the error that terminates it.
	_ = protorange.Range(spec.ProtoReflect(), func(p protopath.Values) error {
		switch v := p.Index(-1).Value.Interface().(type) {
		case protoreflect.Message:
			if len(v.GetUnknown()) > 0 {
				reason = "has a field that this version of the control plane does not know"
			}
		case protoreflect.EnumNumber:
			if d := enumType(p.Path); d != nil && d.Values().ByNumber(v) == nil {
				reason = fmt.Sprintf("has a value that this version of the control plane does not know: %d", v)
			}
		}
		if reason != "" {
			at = jsonPath(p.Path)
			return protorange.Terminate
		}
		return nil
	})
	return at, reason
}

// enumType returns the enum type of the last field in a path, which may be followed by an index. Of
// a map it is the type of the values. It returns nil if the field is no enum, or the path has no
// field.
func enumType(path protopath.Path) protoreflect.EnumDescriptor {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind() != protopath.FieldAccessStep {
			continue // an index of a list or map
		}
		d := path[i].FieldDescriptor()
		if d.IsMap() {
			d = d.MapValue()
		}
		return d.Enum()
	}
	return nil
}

// jsonPath formats a path with the API's JSON names: "spec.http[0].route". It begins with "spec".
func jsonPath(path protopath.Path) string {
	at := field.NewPath("spec")
	for _, step := range path {
		switch step.Kind() {
		case protopath.FieldAccessStep:
			at = at.Child(step.FieldDescriptor().JSONName())
		case protopath.ListIndexStep:
			at = at.Index(step.ListIndex())
		case protopath.MapIndexStep:
			at = at.Key(step.MapIndex().String())
		}
	}
	return at.String()
}
