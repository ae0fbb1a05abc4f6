package apicoverage

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// clearField clears a field wherever a message sets it. Of an enum value, "mode=STRICT", it clears
// the field where it has that value.
func clearField(m protoreflect.Message, field string) {
	visitField(m, field, func(m protoreflect.Message, f protoreflect.FieldDescriptor) { m.Clear(f) })
}

// alterField changes the value of a field wherever a message sets it; step distinguishes several
// such values. If an enum value is given, it alters the field only where it has that value.
func alterField(m protoreflect.Message, field string, step int) {
	visitField(m, field, func(m protoreflect.Message, f protoreflect.FieldDescriptor) {
		switch {
		case f.IsMap():
			alterMap(m.Mutable(f).Map(), f, step)
		case f.IsList():
			values := m.Mutable(f).List()
			last := values.Len() - 1
			values.Set(last, otherValue(f, values.Get(last), step))
		default:
			m.Set(f, otherValue(f, m.Get(f), step))
		}
	})
}

func alterMap(values protoreflect.Map, f protoreflect.FieldDescriptor, step int) {
	values.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values.Set(k, otherValue(f.MapValue(), v, step))
		return true
	})
}

// visitField calls do for every message that sets the field, with the field's descriptor.
func visitField(m protoreflect.Message, field string, do func(protoreflect.Message, protoreflect.FieldDescriptor)) {
	path, value, _ := strings.Cut(field, "=")
	name, rest, deeper := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByJSONName(name)
	if f == nil || !m.Has(f) {
		return
	}
	switch {
	case deeper:
		for _, v := range fieldValues(m, f) {
			visitField(v.Message(), rest+strings.TrimPrefix(field, path), do)
		}
	case value == "":
		do(m, f)
	default:
		number := f.Enum().Values().ByName(protoreflect.Name(value)).Number()
		for _, v := range fieldValues(m, f) {
			if v.Enum() == number {
				do(m, f)
				return
			}
		}
	}
}

// otherValue returns a value that differs from v. Steps lead to different ones, as far as there are
// any.
func otherValue(f protoreflect.FieldDescriptor, v protoreflect.Value, step int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(anotherText(v.String(), step))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(append([]byte("x"), v.Bytes()...))
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		at := values.ByNumber(v.Enum()).Index()
		return protoreflect.ValueOfEnum(values.Get((at + 1 + step) % values.Len()).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()) + 1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int() + 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v.Float() / 2)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(v.Float()) / 2)
	default:
		return anotherMessage(v, step)
	}
}

// anotherMessage alters the first fields that a message sets (a wrapper's value, a duration's
// seconds).
func anotherMessage(v protoreflect.Value, step int) protoreflect.Value {
	m := proto.Clone(v.Message().Interface()).ProtoReflect()
	altered := false
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		alterField(m, f.JSONName(), step)
		altered = true
		return false
	})
	if !altered { // a wrapper of zero
		if f := m.Descriptor().Fields().ByName("value"); f != nil {
			m.Set(f, otherValue(f, m.Get(f), step))
		}
	}
	return protoreflect.ValueOfMessage(m)
}

// anotherText returns a text of the same form: with a letter more, or with another digit at the
// end.
func anotherText(text string, step int) string {
	switch step {
	case 0:
		return text + "x"
	case 1:
		if at := strings.LastIndexAny(text, "012345678"); at >= 0 {
			return text[:at] + string(text[at]+1) + text[at+1:]
		}
		return "x" + text
	default:
		return "x-" + text
	}
}
