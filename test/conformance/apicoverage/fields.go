package apicoverage

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// requiredFields returns what needs a line: every leaf of a message, and for an enum every value
// except the unset one. Below a field of whole nothing needs a line but the field itself.
func requiredFields(m proto.Message, whole config.Fields) []string {
	var list []string
	for _, leaf := range leafPaths(m) {
		if i := slices.IndexFunc(whole, func(w string) bool { return config.Fields{w}.Covers(leaf) }); i >= 0 {
			list = append(list, whole[i])
			continue
		}
		list = append(list, leaf)
		if e := fieldAt(m, leaf).Enum(); e != nil {
			for i := range e.Values().Len() {
				if v := e.Values().Get(i); v.Number() != 0 {
					list = append(list, leaf+"="+string(v.Name()))
				}
			}
		}
	}
	return slices.Compact(list)
}

// leafPaths returns the leaves of a message, and in the place of a map of messages the leaves of
// its values: "tracing.customTags.header.name". The networks of MeshNetworks are a subject of their
// own.
func leafPaths(m proto.Message) []string {
	var list []string
	for _, leaf := range config.LeafPaths(m) {
		f := fieldAt(m, leaf)
		if !f.IsMap() || messageBelow(f) == nil || f.FullName() == "istio.mesh.v1alpha1.MeshNetworks.networks" {
			list = append(list, leaf)
			continue
		}
		for _, inside := range config.LeafPaths(dynamicpb.NewMessage(messageBelow(f))) {
			list = append(list, leaf+"."+inside)
		}
	}
	return list
}

// messageBelow returns the type of the messages that a field holds: alone, in a list, or as the
// values of a map. It is nil for other fields and for messages that are not of the API.
func messageBelow(f protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	m := f.Message()
	if f.IsMap() {
		m = f.MapValue().Message()
	}
	if m == nil || !strings.HasPrefix(string(m.FullName()), "istio.") {
		return nil
	}
	return m
}

// fieldAt returns the field of a path, or nil if it does not exist.
func fieldAt(m proto.Message, path string) protoreflect.FieldDescriptor {
	at := m.ProtoReflect().Descriptor()
	for {
		name, rest, deeper := strings.Cut(path, ".")
		f := at.Fields().ByJSONName(name)
		if !deeper || f == nil || messageBelow(f) == nil {
			return f
		}
		at, path = messageBelow(f), rest
	}
}

// findType returns the type that a field refers to: a field of the subject, another subject, or
// "subject:field".
func findType(s Subject, like string) (protoreflect.MessageDescriptor, error) {
	name, path, _ := strings.Cut(like, ":")
	for _, other := range Subjects() {
		switch {
		case other.Name != name:
		case path == "":
			return other.Type.ProtoReflect().Descriptor(), nil
		default:
			return messageAt(other, path)
		}
	}
	return messageAt(s, like)
}

func messageAt(s Subject, path string) (protoreflect.MessageDescriptor, error) {
	f := fieldAt(s.Type, path)
	if f == nil || f.Message() == nil {
		return nil, fmt.Errorf("%s has no message %s", s.Name, path)
	}
	return f.Message(), nil
}

// setsField reports whether a message sets a field, in any of its lists. A zero value without
// presence does not set the field.
func setsField(m protoreflect.Message, field string) bool {
	path, value, _ := strings.Cut(field, "=")
	name, rest, deeper := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByJSONName(name)
	if f == nil || !m.Has(f) {
		return false
	}
	if deeper {
		below := rest + strings.TrimPrefix(field, path)
		return slices.ContainsFunc(
			fieldValues(m, f),
			func(v protoreflect.Value) bool { return setsField(v.Message(), below) },
		)
	}
	if value == "" {
		return true
	}
	return slices.ContainsFunc(fieldValues(m, f), func(v protoreflect.Value) bool {
		return v.Enum() == f.Enum().Values().ByName(protoreflect.Name(value)).Number()
	})
}

// fieldValues returns the value of a field, or the values of a list or a map.
func fieldValues(m protoreflect.Message, f protoreflect.FieldDescriptor) []protoreflect.Value {
	if f.IsMap() {
		return slices.Collect(func(yield func(protoreflect.Value) bool) {
			m.Get(f).Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return yield(v) })
		})
	}
	if !f.IsList() {
		return []protoreflect.Value{m.Get(f)}
	}
	var out []protoreflect.Value
	for i := range m.Get(f).List().Len() {
		out = append(out, m.Get(f).List().Get(i))
	}
	return out
}

// messageWith returns a message that sets just one field, to a value other than its default.
func messageWith(m proto.Message, field string) proto.Message {
	path, value, _ := strings.Cut(field, "=")
	out := m.ProtoReflect().New()
	at := out
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		switch f := at.Descriptor().Fields().ByJSONName(name); {
		case f.IsList():
			at = at.Mutable(f).List().AppendMutable().Message()
		case f.IsMap():
			at = at.Mutable(f).Map().Mutable(someKey(f)).Message()
		default:
			at = at.Mutable(f).Message()
		}
	}
	setValue(at, at.Descriptor().Fields().ByJSONName(names[len(names)-1]), value)
	return out.Interface()
}

func setValue(m protoreflect.Message, f protoreflect.FieldDescriptor, enum string) {
	switch {
	case f.IsMap():
		values := m.Mutable(f).Map()
		values.Set(someKey(f), exampleValue(f.MapValue(), values.NewValue(), enum))
	case f.IsList():
		values := m.Mutable(f).List()
		values.Append(exampleValue(f, values.NewElement(), enum))
	default:
		m.Set(f, exampleValue(f, m.NewField(f), enum))
	}
}

func someKey(f protoreflect.FieldDescriptor) protoreflect.MapKey {
	if f.MapKey().Kind() == protoreflect.Uint32Kind {
		return protoreflect.ValueOfUint32(1).MapKey()
	}
	return protoreflect.ValueOfString("k").MapKey()
}

func exampleValue(f protoreflect.FieldDescriptor, empty protoreflect.Value, enum string) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		if v := values.ByName(protoreflect.Name(enum)); v != nil {
			return protoreflect.ValueOfEnum(v.Number())
		}
		return protoreflect.ValueOfEnum(values.Get(min(1, values.Len()-1)).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	default:
		if f.Message() != nil && f.Message().FullName() == "google.protobuf.BoolValue" {
			empty.Message().Set(f.Message().Fields().ByName("value"), protoreflect.ValueOfBool(true))
		}
		return empty
	}
}
