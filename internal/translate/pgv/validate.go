package pgv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Validate returns an error with all violations of the rules of m's type and of the messages
// inside, or nil if there is none. In each message, fields outside oneofs come first, then oneofs,
// then optional fields, each in the order of declaration. A message in a google.protobuf.Any is not
// validated.
func Validate(m proto.Message) error {
	if text := violationsIn(m.ProtoReflect()); text != "" {
		return errors.New(text)
	}
	return nil
}

// violationsIn returns the violations in m and the messages inside, separated by semicolons, or "":
// of fields, then oneofs, then optional fields. Messages without a required value are skipped if
// they are unset.
func violationsIn(m protoreflect.Message) string {
	p := planFor(m.Descriptor())
	v := violations{message: p.name}
	for i := range p.fields {
		f := &p.fields[i]
		if f.onlyIfSet && !m.Has(f.field) {
			continue
		}
		v.checkField(f, m)
	}
	for _, o := range p.oneofs {
		if set := m.WhichOneof(o.oneof); set != nil {
			v.checkField(o.fields[set.Number()], m)
		} else if o.required {
			v.add(o.name, "value is required", "")
		}
	}
	for i := range p.optional {
		if f := &p.optional[i]; m.Has(f.field) {
			v.checkField(f, m)
		}
	}
	return strings.Join(v.texts, "; ")
}

// violations collects the violations in one message.
type violations struct {
	message string // the name of the message's Go type
	texts   []string
}

// add appends a violation of a field. cause has the violations in the field's message, or is empty.
func (v *violations) add(field, reason, cause string) {
	if cause != "" {
		reason += " | caused by: " + cause
	}
	v.texts = append(v.texts, fmt.Sprintf("invalid %s.%s: %s", v.message, field, reason))
}

// checkField appends the violations of a field of m: a map, a list or a single value. An unset
// message counts as missing; other unset values have their zero value.
func (v *violations) checkField(f *fieldPlan, m protoreflect.Message) {
	value := m.Get(f.field)
	switch {
	case f.field.IsMap():
		v.checkMap(f, value.Map())
	case f.field.IsList():
		v.checkList(f, value.List())
	default:
		v.checkValue(&f.value, position{field: f.name, index: -1}, value, f.field.Message() != nil && !m.Has(f.field))
	}
}

// checkList appends the violations of a list: of its length, of repeated elements if they must be
// unique, and of each element. An empty list is valid if f.ignoreEmpty is set.
func (v *violations) checkList(f *fieldPlan, list protoreflect.List) {
	if f.ignoreEmpty && list.Len() == 0 {
		return
	}
	if reason := f.size.check(list.Len()); reason != "" {
		v.add(f.name, reason, "")
	}
	if !f.unique && f.value.isEmpty() {
		return
	}
	var seen map[any]bool
	if f.unique {
		seen = map[any]bool{}
	}
	for i := range list.Len() {
		at, value := position{field: f.name, index: i}, list.Get(i)
		if f.unique {
			key := value.Interface()
			if b, ok := key.([]byte); ok {
				key = string(b)
			}
			if seen[key] {
				v.add(at.String(), "repeated value must contain unique items", "")
			}
			seen[key] = true
		}
		v.checkValue(&f.value, at, value, false)
	}
}

// checkMap appends the violations of a map: of its size, and of each key and value in the order of
// the keys. An empty map is valid if f.ignoreEmpty is set.
func (v *violations) checkMap(f *fieldPlan, entries protoreflect.Map) {
	if f.ignoreEmpty && entries.Len() == 0 {
		return
	}
	if reason := f.size.check(entries.Len()); reason != "" {
		v.add(f.name, reason, "")
	}
	if f.keys.isEmpty() && f.value.isEmpty() {
		return
	}
	for _, k := range sortKeys(f.field.MapKey().Kind(), entries) {
		at := position{field: f.name, key: k}
		v.checkValue(&f.keys, at, k.Value(), false)
		v.checkValue(&f.value, at, entries.Get(k), false)
	}
}

// sortKeys returns the keys of a map in ascending order. Strings and booleans are compared as text,
// other keys as numbers.
func sortKeys(kind protoreflect.Kind, entries protoreflect.Map) []protoreflect.MapKey {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		if kind == protoreflect.StringKind || kind == protoreflect.BoolKind {
			return cmp.Compare(a.String(), b.String())
		}
		switch {
		case less(a.Interface(), b.Interface()):
			return -1
		case less(b.Interface(), a.Interface()):
			return 1
		}
		return 0
	})
	return keys
}

// position is where a value is in a message: in a field, or in an element of a list or map.
type position struct {
	field string
	index int                 // in a list, or -1
	key   protoreflect.MapKey // of a map, if valid
}

// String returns the name of the field, with the index or key in brackets for an element:
// "hosts[2]".
func (p position) String() string {
	switch {
	case p.key.IsValid():
		return fmt.Sprintf("%s[%v]", p.field, p.key.Interface())
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.field, p.index)
	}
	return p.field
}

// checkValue appends the violations of one value: of a field, of an element of a list, or of a key
// or a value of a map. unset is set for a message that is not there; then only p.required is
// checked. An invalid duration is reported instead of other violations. An empty value is valid if
// p.ignoreEmpty is set.
func (v *violations) checkValue(p *valuePlan, at position, value protoreflect.Value, unset bool) {
	if unset {
		if p.required != "" {
			v.add(at.String(), p.required, "")
		}
		return
	}
	if p.wrapped != nil {
		value = value.Message().Get(p.wrapped)
	}
	if p.duration {
		d, err := asDuration(value.Message())
		if err != nil {
			v.add(at.String(), "value is not a valid duration", err.Error())
			return
		}
		value = protoreflect.ValueOfInt64(int64(d))
	}
	if p.ignoreEmpty && isZero(value) {
		return
	}
	for _, check := range p.checks {
		if reason := check(value); reason != "" {
			v.add(at.String(), reason, "")
		}
	}
	if p.embedded {
		if cause := violationsIn(value.Message()); cause != "" {
			v.add(at.String(), "embedded message failed validation", cause)
		}
	}
}
