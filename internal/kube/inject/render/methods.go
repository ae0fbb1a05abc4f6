package render

import (
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
)

// methodOf returns a function that returns the method of a value, invalid if its type lacks it. It
// returns nil for names of methods that templates may not call; getters are not among the names.
// Each function has its method's name as a constant: with a variable name the linker keeps the
// methods of all types, a third of pilotctl's size.
func methodOf(name string) func(v reflect.Value) reflect.Value {
	switch name {
	// Messages, enums, and types that print themselves.
	case "String":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("String") }
	// Durations and times.
	case "AsDuration":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("AsDuration") }
	case "AsTime":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("AsTime") }
	case "Format":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Format") }
	case "Hours":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Hours") }
	case "IsZero":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("IsZero") }
	case "Milliseconds":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Milliseconds") }
	case "Minutes":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Minutes") }
	case "Seconds":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Seconds") }
	case "Unix":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Unix") }
	// Untyped values of messages.
	case "AsInterface":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("AsInterface") }
	case "AsMap":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("AsMap") }
	case "AsSlice":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("AsSlice") }
	// Quantities, lists of resources, and numbers or names of ports.
	case "Cpu":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Cpu") }
	case "IntValue":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("IntValue") }
	case "Memory":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Memory") }
	case "MilliValue":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("MilliValue") }
	case "Value":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Value") }
	// Versions, which sprig's function semver returns.
	case "Major":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Major") }
	case "Metadata":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Metadata") }
	case "Minor":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Minor") }
	case "Patch":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Patch") }
	case "Prerelease":
		return func(v reflect.Value) reflect.Value { return v.MethodByName("Prerelease") }
	}
	return nil
}

// isMethodName reports whether a field name in a template may be that of a method: of a getter, or
// one of [methodOf].
func isMethodName(name string) bool { return methodOf(name) != nil || isGetterName(name) }

// isGetterName reports whether a name is "Get" followed by an upper-case letter.
func isGetterName(name string) bool {
	field, ok := strings.CutPrefix(name, "Get")
	return ok && field != "" && field[0] >= 'A' && field[0] <= 'Z'
}

// callMethod returns what receiver.name means in a template: the result of a method of [methodOf],
// or the value of a getter, field or map entry. A missing map entry is nil, and without a receiver
// the result is nil. It returns an error if there is none of these, if the method fails or refuses
// the arguments, or for a field of a nil pointer.
func callMethod(receiver any, name string, args ...any) (any, error) {
	v := reflect.ValueOf(receiver)
	if !v.IsValid() {
		return nil, nil
	}
	if find := methodOf(name); find != nil {
		if m := find(addressable(v)); m.IsValid() {
			return call(name, m, args)
		}
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("%s of %T cannot be called with arguments", name, receiver)
	}
	if isGetterName(name) {
		if x, ok := get(v, strings.TrimPrefix(name, "Get")); ok {
			return x, nil
		}
	}
	if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
		if x := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())); x.IsValid() {
			return x.Interface(), nil
		}
		return nil, nil
	}
	if x, ok := fieldValue(v, name); ok {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("nil pointer evaluating %T.%s", receiver, name)
		}
		return x.Interface(), nil
	}
	return nil, fmt.Errorf("%T has no field %s, and no method of that name that templates may call", receiver, name)
}

// addressable returns v, or a pointer to a copy of it if v is no pointer, because methods may be
// declared for pointers only.
func addressable(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer {
		return v
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}

// call calls a method and returns its first result. It returns an error if the number or types of
// the arguments do not fit, or if the method's second result is an error. Nil arguments, variadic
// methods and methods without a result are refused.
func call(name string, method reflect.Value, args []any) (any, error) {
	t := method.Type()
	if t.NumIn() != len(args) || t.IsVariadic() || t.NumOut() == 0 {
		return nil, fmt.Errorf("method %s needs %d arguments, not %d", name, t.NumIn(), len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		in[i] = reflect.ValueOf(a)
		if !in[i].IsValid() || !in[i].Type().AssignableTo(t.In(i)) {
			return nil, fmt.Errorf("argument %d of method %s is a %T, want %s", i+1, name, a, t.In(i))
		}
	}
	out := method.Call(in)
	if len(out) > 1 {
		if err, ok := out[1].Interface().(error); ok {
			return nil, err
		}
	}
	return out[0].Interface(), nil
}

// get returns the value that a getter of the field returns: the zero value of an optional field
// that is not set. Fields of a oneof are found regardless of case and underscores. The result is
// false if there is no such field.
func get(v reflect.Value, field string) (any, bool) {
	if x, ok := fieldValue(v, field); ok {
		if x.Kind() == reflect.Pointer && x.Type().Elem().Kind() != reflect.Struct { // optional
			if x.IsNil() {
				return reflect.Zero(x.Type().Elem()).Interface(), true
			}
			x = x.Elem()
		}
		return x.Interface(), true
	}
	m, ok := v.Interface().(proto.Message)
	if !ok {
		return nil, false
	}
	// A field of a oneof, which is neither a list nor a map.
	message := m.ProtoReflect()
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case !strings.EqualFold(strings.ReplaceAll(string(f.Name()), "_", ""), field):
		case f.Message() != nil:
			return message.Get(f).Message().Interface(), true
		default:
			return message.Get(f).Interface(), true
		}
	}
	return nil, false
}

// fieldValue returns an exported field of a struct or of what a pointer refers to; of a nil pointer
// the zero value. The result is false if v has no such field.
func fieldValue(v reflect.Value, name string) (reflect.Value, bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v = reflect.Zero(v.Type().Elem())
		} else {
			v = v.Elem()
		}
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	f, ok := v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return reflect.Value{}, false
	}
	x, err := v.FieldByIndexErr(f.Index)
	return x, err == nil
}
