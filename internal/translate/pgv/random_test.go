package pgv_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// numbersInRules returns the numbers in the rules of all types and their neighbours: limits of
// ranges, of lengths and of sizes. Limits of durations are in seconds.
func numbersInRules(t *testing.T) []float64 {
	seen := map[float64]bool{0: true, 1: true, -1: true, math.MaxInt32: true, 0.5: true}
	for _, typ := range validatedTypes(t) {
		for i := range typ.Descriptor().Fields().Len() {
			options := typ.Descriptor().Fields().Get(i).Options()
			collectNumbers(proto.GetExtension(options, validate.E_Rules).(*validate.FieldRules).ProtoReflect(), seen)
		}
	}
	return append(slices.Sorted(maps.Keys(seen)), math.NaN())
}

// collectNumbers adds the numbers in m and their neighbours to seen.
func collectNumbers(m protoreflect.Message, seen map[float64]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsList() {
			return true
		}
		var n float64
		switch x := v.Interface().(type) {
		case protoreflect.Message:
			if d, ok := x.Interface().(*durationpb.Duration); ok {
				seen[d.AsDuration().Seconds()] = true
			}
			collectNumbers(x, seen)
			return true
		case uint64:
			n = float64(x)
		case uint32:
			n = float64(x)
		case int32:
			n = float64(x)
		case int64:
			n = float64(x)
		case float64:
			n = x
		case float32:
			n = float64(x)
		default:
			return true
		}
		seen[n], seen[n-1], seen[n+1] = true, true, true
		return true
	})
}

// randomMessages generates messages whose values are near the limits of rules.
type randomMessages struct {
	*rand.Rand
	numbers []float64
}

// message sets random fields of m, and returns it. Messages are nested up to depth levels.
func (r *randomMessages) message(m protoreflect.Message, depth int) protoreflect.Message {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		s, fraction := math.Modf(r.number())
		d.Seconds, d.Nanos = int64(s), int32(fraction*1e9) // of different signs now and then, which is invalid
		if r.IntN(20) == 0 {
			d.Nanos = -d.Nanos - 1
		}
		return m
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(3) == 0 || f.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case f.IsMap():
			for range r.IntN(3) {
				value := m.Mutable(f).Map().NewValue()
				if f.MapValue().Message() == nil {
					value = r.scalar(f.MapValue())
				} else {
					r.message(value.Message(), depth-1)
				}
				m.Mutable(f).Map().Set(r.scalar(f.MapKey()).MapKey(), value)
			}
		case f.IsList():
			for range r.IntN(3) {
				if f.Message() == nil {
					m.Mutable(f).List().Append(r.scalar(f))
				} else {
					r.message(m.Mutable(f).List().AppendMutable().Message(), depth-1)
				}
			}
		case f.Message() != nil:
			r.message(m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, r.scalar(f))
		}
	}
	return m
}

// number returns a number near a limit.
func (r *randomMessages) number() float64 { return r.numbers[r.IntN(len(r.numbers))] }

// texts are values that match some patterns, prefixes and lists of rules, and not others.
func texts() []string {
	return []string{
		"", "a", "a", "%a%", "%", "a b", "/x", "x?#", "\x00", "a\nb", ":path", "x.mmdb", "http", "CONNECT", "internal", "LH",
		"x-envoy-max-retries", "2025-11-25", "ä", strings.Repeat("ü", 70), strings.Repeat("x", 300), strings.Repeat("x", 17000),
	}
}

// scalar returns a value of a field, or of the elements of a list.
func (r *randomMessages) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts()[r.IntN(len(texts()))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts()[r.IntN(len(texts()))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(f.Enum().Values().Len() + 1)))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(r.number()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(r.number())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(int64(r.number())))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(int64(r.number())))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(r.number()))
	}
	return protoreflect.ValueOfInt32(int32(int64(r.number())))
}
