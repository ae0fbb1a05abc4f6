package patch

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// merge merges src into dst as EnvoyFilters have it (Patch.Operation MERGE): field by field, lists one after the other, map
// entries in place of those of the same key. Unlike in proto.Merge a duration, a wrapped scalar or an Any is one value: 0s or
// false replaces what was there. With replaceLists a list that src has takes the place of dst's (MERGE_AND_REPLACE_LIST).
// Both are of one type; dst takes nothing of src over that it shares with it.
func merge(dst, src proto.Message, replaceLists bool) {
	merger{replaceLists}.message(dst.ProtoReflect(), src.ProtoReflect())
}

type merger struct{ replaceLists bool }

func (m merger) message(dst, src protoreflect.Message) {
	src.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			if m.replaceLists {
				dst.Clear(f)
			}
			appendAll(dst.Mutable(f).List(), v.List(), f)
		case f.IsMap():
			to := dst.Mutable(f).Map()
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				to.Set(k, cloned(f.MapValue(), v))
				return true
			})
		case f.Message() != nil && !isValue(f.Message().FullName()):
			m.message(dst.Mutable(f).Message(), v.Message())
		default:
			dst.Set(f, cloned(f, v))
		}
		return true
	})
	if u := src.GetUnknown(); len(u) > 0 {
		dst.SetUnknown(slices.Concat(dst.GetUnknown(), u))
	}
}

func appendAll(dst, src protoreflect.List, f protoreflect.FieldDescriptor) {
	for i := range src.Len() {
		dst.Append(cloned(f, src.Get(i)))
	}
}

// cloned copies one value of a field.
func cloned(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch {
	case f.Message() != nil:
		return protoreflect.ValueOfMessage(proto.Clone(v.Message().Interface()).ProtoReflect())
	case f.Kind() == protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(slices.Clone(v.Bytes()))
	default:
		return v
	}
}

// isValue says whether messages of a type are single values, of which a part means nothing.
func isValue(name protoreflect.FullName) bool {
	switch name {
	case "google.protobuf.Any", "google.protobuf.Duration", "google.protobuf.Timestamp",
		"google.protobuf.BoolValue", "google.protobuf.BytesValue", "google.protobuf.DoubleValue", "google.protobuf.FloatValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.StringValue",
		"google.protobuf.UInt32Value", "google.protobuf.UInt64Value":
		return true
	default:
		return false
	}
}
