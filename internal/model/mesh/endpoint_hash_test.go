package mesh

import (
	"reflect"
	"testing"
)

// TestEveryFieldOfAnEndpointCounts changes one field after the other: a field that the hash forgets would never be pushed.
func TestEveryFieldOfAnEndpointCounts(t *testing.T) {
	seen := map[uint64]string{HashEndpoints([]*Endpoint{{}}): "none"}
	note := func(name string, e *Endpoint) {
		h := HashEndpoints([]*Endpoint{e})
		if other, there := seen[h]; there {
			t.Errorf("%s: the same hash as with %s set", name, other)
		}
		seen[h] = name
	}
	typ := reflect.TypeFor[Endpoint]()
	for i := range typ.NumField() {
		e := new(Endpoint)
		f := reflect.ValueOf(e).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Uint32:
			f.SetUint(7)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Struct:
			for j := range f.NumField() {
				e := new(Endpoint)
				reflect.ValueOf(e).Elem().Field(i).Field(j).SetString("x")
				note(typ.Field(i).Name+"."+f.Type().Field(j).Name, e)
			}
			continue
		default:
			t.Fatalf("field %s: a kind that this test does not know", typ.Field(i).Name)
		}
		note(typ.Field(i).Name, e)
	}
}
