package random

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// RepairMessage removes invalid fields of a message, and adds missing ones, until it is valid. wrong returns
// the paths of invalid fields as in Problems, without the prefix before the message:
// "http[0].match[1].headers[x-a].exact". Mend reports whether the message became valid.
func (s *Source) RepairMessage(m proto.Message, wrong func() []string) bool {
	for range 200 {
		paths := wrong()
		if len(paths) == 0 {
			return true
		}
		for _, path := range slices.Backward(paths) { // removing one does not move the ones before it
			s.mendAt(m.ProtoReflect(), parseSteps(path))
		}
	}
	return false
}

// step is one field of a path, and which of its elements.
type step struct{ name, index string }

func parseSteps(path string) []step {
	var list []step
	for path != "" {
		name, rest := path, ""
		if i := strings.IndexAny(path, ".["); i >= 0 {
			name, rest = path[:i], path[i:]
		}
		s := step{name: name}
		if strings.HasPrefix(rest, "[") {
			if i := strings.IndexByte(rest, ']'); i >= 0 {
				s.index, rest = rest[1:i], rest[i+1:]
			}
		}
		list, path = append(list, s), strings.TrimPrefix(rest, ".")
	}
	return list
}

// mendAt unsets the field at the path, or sets it if it is unset; a message that is invalid as a
// whole is changed.
func (s *Source) mendAt(m protoreflect.Message, path []step) {
	if len(path) == 0 {
		s.changeField(m)
		return
	}
	f := m.Descriptor().Fields().ByJSONName(path[0].name)
	if f == nil {
		return
	}
	if !m.Has(f) {
		s.setField(m, f, 2)
		return
	}
	switch {
	case f.IsList():
		list := m.Mutable(f).List()
		i, err := strconv.Atoi(path[0].index)
		switch {
		case err != nil || i >= list.Len():
			m.Clear(f)
		case f.Message() != nil && s.IntN(20) > 0:
			s.mendAt(list.Get(i).Message(), path[1:])
		default:
			removeItem(list, i)
		}
	case f.IsMap():
		s.mendKey(m.Mutable(f).Map(), f, path)
	case f.Message() != nil && s.IntN(20) > 0:
		s.mendAt(m.Mutable(f).Message(), path[1:])
	default:
		m.Clear(f)
	}
}

// changeField sets or unsets one field of a message.
func (s *Source) changeField(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	f := fields.Get(s.IntN(fields.Len()))
	if m.Has(f) {
		m.Clear(f)
	} else {
		s.setField(m, f, 2)
	}
}

// mendKey mends one entry of a map; without such an entry all of them go.
func (s *Source) mendKey(values protoreflect.Map, f protoreflect.FieldDescriptor, path []step) {
	found := false
	values.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case k.String() != path[0].index:
			return true
		case f.MapValue().Message() != nil && s.IntN(20) > 0:
			s.mendAt(v.Message(), path[1:])
		default:
			values.Clear(k)
		}
		found = true
		return false
	})
	if found {
		return
	}
	values.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		values.Clear(k)
		return true
	})
}

func removeItem(list protoreflect.List, i int) {
	for ; i < list.Len()-1; i++ {
		list.Set(i, list.Get(i+1))
	}
	list.Truncate(list.Len() - 1)
}
