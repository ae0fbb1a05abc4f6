package random

import (
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Source makes random messages.
type Source struct {
	*rand.Rand
	// Words are values for texts, by the name of the field, "host", or with its message's before
	// it, "Destination.host". Fields without any have a few short ones.
	Words map[string][]string
	// Likely is the chance of a field to be set, here and further down.
	Likely float64
}

// New returns a Source that always produces the same messages for a seed.
func New(seed uint64, words map[string][]string) *Source {
	return &Source{Rand: rand.New(rand.NewPCG(seed, seed)), Words: words, Likely: 0.6}
}

// depth is how far down messages are filled; it ends types that hold themselves.
const depth = 8

// Fill sets fields of a message.
func (s *Source) Fill(m proto.Message) { s.fillMessage(m.ProtoReflect(), s.Likely, depth) }

func (s *Source) fillMessage(m protoreflect.Message, likely float64, left int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		o := f.ContainingOneof()
		switch {
		case o != nil && !o.IsSynthetic():
			continue
		case left == 0 && f.Message() != nil, s.Float64() > likely:
			continue
		}
		s.setField(m, f, left)
	}
	oneofs := m.Descriptor().Oneofs()
	for i := range oneofs.Len() {
		o := oneofs.Get(i)
		if !o.IsSynthetic() && (left < depth || s.Float64() < likely) {
			s.setField(m, o.Fields().Get(s.IntN(o.Fields().Len())), left)
		}
	}
}

func (s *Source) setField(m protoreflect.Message, f protoreflect.FieldDescriptor, left int) {
	switch {
	case f.IsMap():
		values := m.Mutable(f).Map()
		for range 1 + s.IntN(2) {
			v := values.NewValue()
			if f.MapValue().Message() != nil {
				s.fillFields(v.Message(), left)
			} else {
				v = s.scalarValue(f.MapValue())
			}
			values.Set(s.mapKey(f).MapKey(), v)
		}
	case f.IsList():
		values := m.Mutable(f).List()
		for range 1 + s.IntN(2) {
			if f.Message() != nil {
				s.fillFields(values.AppendMutable().Message(), left)
			} else {
				values.Append(s.scalarValue(f))
			}
		}
	case f.Message() != nil:
		s.fillFields(m.Mutable(f).Message(), left)
	default:
		m.Set(f, s.scalarValue(f))
	}
}

// fillFields fills a message inside another.
func (s *Source) fillFields(m protoreflect.Message, left int) {
	switch v := m.Interface().(type) {
	case *durationpb.Duration:
		proto.Merge(
			v,
			Pick(
				s,
				[]*durationpb.Duration{
					{Seconds: 1},
					{Seconds: 2, Nanos: 5e8},
					{Seconds: 60},
					{Nanos: 1e7},
					{},
					{Seconds: -1},
				},
			),
		)
	case *wrapperspb.BoolValue:
		v.Value = s.IntN(2) == 0
	case *wrapperspb.UInt32Value:
		v.Value = Pick(s, numbers)
	case *wrapperspb.Int32Value:
		v.Value = int32(Pick(s, numbers))
	case *wrapperspb.DoubleValue:
		v.Value = float64(s.IntN(1_001)) / 10
	case *wrapperspb.StringValue:
		v.Value = Pick(s, words)
	case *structpb.Struct:
		v.Fields = map[string]*structpb.Value{"name": structpb.NewStringValue(Pick(s, words))}
	default:
		s.fillMessage(m, s.Likely, left-1)
	}
}

var (
	numbers = []uint32{0, 1, 2, 50, 80, 80, 100, 443, 503, 9080, 9080, 65535, 70000}
	words   = []string{"a", "b-c", "x.y", "100%", "%REQ(x-a)%", "/d", "*", "ü"}
)

func (s *Source) scalarValue(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(s.IntN(2) == 0)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(s.IntN(values.Len())).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(Pick(s, numbers)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(Pick(s, numbers)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(Pick(s, numbers))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(Pick(s, numbers)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(s.IntN(1_001)) / 10)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(s.IntN(1_001)) / 10)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(s.wordFor(f, "")))
	default:
		return protoreflect.ValueOfString(s.wordFor(f, ""))
	}
}

// mapKey returns a key of a map. Maps of the API have texts or ports as keys.
func (s *Source) mapKey(f protoreflect.FieldDescriptor) protoreflect.Value {
	if f.MapKey().Kind() == protoreflect.StringKind {
		return protoreflect.ValueOfString(s.wordFor(f, "key"))
	}
	return s.scalarValue(f.MapKey())
}

// wordFor returns a text for a field, or for the keys of a map.
func (s *Source) wordFor(f protoreflect.FieldDescriptor, of string) string {
	name := f.JSONName()
	if of != "" {
		name += "." + of
	}
	if parent, ok := f.Parent().(protoreflect.MessageDescriptor); ok {
		if known := s.Words[string(parent.Name())+"."+name]; known != nil {
			return Pick(s, known)
		}
	}
	if known := s.Words[name]; known != nil {
		return Pick(s, known)
	}
	return Pick(s, words)
}

// Pick returns one of a list.
func Pick[T any](s *Source, list []T) T { return list[s.IntN(len(list))] }
