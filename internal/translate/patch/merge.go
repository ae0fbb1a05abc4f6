package patch

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// merge merges src into dst with the semantics of EnvoyFilters (Patch.Operation MERGE): field by
// field; lists are concatenated, and map entries replace entries with the same key. Unlike in
// proto.Merge, a duration, a wrapped scalar or an Any is a single value, so 0s or false replaces
// the previous value. With replaceLists, a list of src replaces the list of dst
// (MERGE_AND_REPLACE_LIST). Both messages must have the same type; dst does not share memory with
// src afterwards.
func merge(dst, src proto.Message, replaceLists bool) {
	merger{replaceLists}.mergeMessage(dst.ProtoReflect(), src.ProtoReflect())
}

type merger struct{ replaceLists bool }

// mergeMessage merges src into dst, which then has copies. Lists and unknown fields are appended,
// but known lists replaced if m.replaceLists; map entries and scalars are replaced. Messages that
// hold a single value, such as wrappers (isValue), are replaced too.
func (m merger) mergeMessage(dst, src protoreflect.Message) {
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
				to.Set(k, cloneValue(f.MapValue(), v))
				return true
			})
		case f.Message() != nil && !isValue(f.Message().FullName()):
			m.mergeMessage(dst.Mutable(f).Message(), v.Message())
		default:
			dst.Set(f, cloneValue(f, v))
		}
		return true
	})
	if u := src.GetUnknown(); len(u) > 0 {
		dst.SetUnknown(slices.Concat(dst.GetUnknown(), u))
	}
}

// appendAll appends deep copies of the elements of src, a list of field f, to dst.
func appendAll(dst, src protoreflect.List, f protoreflect.FieldDescriptor) {
	for i := range src.Len() {
		dst.Append(cloneValue(f, src.Get(i)))
	}
}

// cloneValue returns a deep copy of one value of field f, or of one element if f is a list or map
// value.
func cloneValue(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch {
	case f.Message() != nil:
		return protoreflect.ValueOfMessage(proto.Clone(v.Message().Interface()).ProtoReflect())
	case f.Kind() == protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(slices.Clone(v.Bytes()))
	default:
		return v
	}
}

// isValue reports whether messages of a type are single values, which are replaced and not merged:
// Any, Duration, Timestamp and the wrappers of scalars.
func isValue(name protoreflect.FullName) bool {
	switch name {
	case "google.protobuf.Any", "google.protobuf.Duration", "google.protobuf.Timestamp",
		"google.protobuf.BoolValue", "google.protobuf.BytesValue", "google.protobuf.DoubleValue",
		"google.protobuf.FloatValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.StringValue",
		"google.protobuf.UInt32Value", "google.protobuf.UInt64Value":
		return true
	default:
		return false
	}
}
