package mesh

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestEveryFieldCounts changes one field of an endpoint or a workload after the other: a change of a
// field that the hash does not cover would never be pushed.
func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	t.Run("Endpoint", func(t *testing.T) {
		t.Parallel()
		everyFieldCounts(t, func(e *Endpoint) uint64 { return HashEndpoints([]*Endpoint{e}) })
	})
	t.Run("Workload", func(t *testing.T) {
		t.Parallel()
		everyFieldCounts(t, func(w *Workload) uint64 { return w.Sealed().Hash }, "Hash")
	})
}

// TestEqualComparesEveryField compares endpoints that differ in one field: an endpoint that is taken
// for an equal one would never be pushed.
func TestEqualComparesEveryField(t *testing.T) {
	t.Parallel()
	endpoints := map[string]*Endpoint{"none": new(Endpoint)}
	eachField(t, func(name string, e *Endpoint) { endpoints[name] = e })
	for name, e := range endpoints {
		if same := *e; !e.Equal(&same) {
			t.Errorf("%s: a copy is not equal", name)
		}
		for other, o := range endpoints {
			if name != other && e.Equal(o) {
				t.Errorf("%s: equal to the endpoint with %s", name, other)
			}
		}
	}
	if !(&Endpoint{}).Equal(&Endpoint{MoreAddresses: []string{}, Labels: map[string]string{}}) {
		t.Error("an empty list or map differs from nil")
	}
}

// everyFieldCounts sets each field of a T, except those named, and fails if two of the results
// have the same hash.
func everyFieldCounts[T any](t *testing.T, hash func(*T) uint64, except ...string) {
	t.Helper()
	seen := map[uint64]string{hash(new(T)): "none"}
	eachField(t, func(name string, x *T) {
		h := hash(x)
		if other, there := seen[h]; there {
			t.Errorf("%s: the same hash as with %s", name, other)
		}
		seen[h] = name
	}, except...)
}

// eachField calls visit with one or two Ts for each field of a T, except those named. Only that
// field is set, to a value that is part of the name.
func eachField[T any](t *testing.T, visit func(name string, x *T), except ...string) {
	t.Helper()
	check := func(index []int, value any) {
		x := new(T)
		field := reflect.ValueOf(x).Elem().FieldByIndex(index)
		field.Set(reflect.ValueOf(value).Convert(field.Type()))
		visit(fmt.Sprint(reflect.TypeFor[T]().FieldByIndex(index).Name, index, value), x)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if slices.Contains(except, f.Name) {
			continue
		}
		switch f.Type.Kind() {
		case reflect.String:
			check(f.Index, "x")
			check(f.Index, "xx")
		case reflect.Uint32:
			check(f.Index, 7)
		case reflect.Bool:
			check(f.Index, true)
		case reflect.Slice:
			if f.Type.Elem() == reflect.TypeFor[NamedPort]() {
				check(f.Index, NamedPorts{{Name: "a"}})
				check(f.Index, NamedPorts{{Name: "a", Number: 1}})
				check(f.Index, NamedPorts{{Name: "a"}, {Name: "a"}})
				continue
			}
			check(f.Index, []string{"x"})
			check(f.Index, []string{"x", "x"})
		case reflect.Map:
			if f.Type.Elem().Kind() == reflect.String {
				check(f.Index, map[string]string{"a": "b"})
				check(f.Index, map[string]string{"a": "b", "b": ""})
				continue
			}
			check(f.Index, map[string]uint32{"a": 1})
			check(f.Index, map[string]uint32{"a": 1, "b": 0})
		case reflect.Struct:
			for i := range f.Type.NumField() {
				check(append(slices.Clone(f.Index), i), "x")
			}
		default:
			t.Fatalf("field %s: a kind that this test does not know", f.Name)
		}
	}
}
