package xds

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unknownPart finds what of a spec this program does not know: a field, or the value of an enum. What is not known cannot be
// followed, and half a policy may allow what the whole one forbids. Files are read as strictly. The reason is empty if all
// is known.
func unknownPart(spec proto.Message) (at, reason string) {
	// The walk's only error is the one that ends it.
	_ = protorange.Range(spec.ProtoReflect(), func(p protopath.Values) error {
		switch v := p.Index(-1).Value.Interface().(type) {
		case protoreflect.Message:
			if len(v.GetUnknown()) > 0 {
				reason = "has a field that this version of the control plane does not know"
			}
		case protoreflect.EnumNumber:
			if d := enumOf(p.Path); d != nil && d.Values().ByNumber(v) == nil {
				reason = fmt.Sprintf("has a value that this version of the control plane does not know: %d", v)
			}
		}
		if reason != "" {
			at = inJSON(p.Path)
			return protorange.Terminate
		}
		return nil
	})
	return at, reason
}

// enumOf gives the type of the enum that a path leads to.
func enumOf(path protopath.Path) protoreflect.EnumDescriptor {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind() != protopath.FieldAccessStep {
			continue // an index into a list or a map
		}
		d := path[i].FieldDescriptor()
		if d.IsMap() {
			d = d.MapValue()
		}
		return d.Enum()
	}
	return nil
}

// inJSON gives a path in the API's JSON names: "spec.http[0].route".
func inJSON(path protopath.Path) string {
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
