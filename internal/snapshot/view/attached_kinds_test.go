package view

import (
	"reflect"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestEveryAttachedFieldHasARow fills every field of AttachedObjects and copies it by the rows of the table: a field without a
// row would never reach a Key or a scope.
func TestEveryAttachedFieldHasARow(t *testing.T) {
	var full, copied AttachedObjects
	fillStrings(t, reflect.ValueOf(&full).Elem())
	for _, row := range attachedKinds() {
		before := copied
		if copied = row.copy(copied, full); copied == before {
			t.Errorf("%s: the row copies no field, or one of another row", row.kind)
		}
	}
	if copied != full {
		t.Errorf("not all fields are copied: %+v", copied)
	}
}

// fillStrings sets every string of a struct, at any depth.
func fillStrings(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillStrings(t, v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

// TestAttachedRows checks each row of the table: it has a known kind of its own, and an object that is not attached does not
// affect a View. DestinationRules without a workloadSelector are visible instead of attached.
func TestAttachedRows(t *testing.T) {
	seen := map[api.Kind]bool{}
	for _, row := range attachedKinds() {
		if _, known := api.Info(row.kind); !known || seen[row.kind] {
			t.Errorf("%s is unknown, or has two rows", row.kind)
		}
		seen[row.kind] = true
		object := config.Key{Kind: row.kind, Namespace: "a", Name: "x"}
		if got, want := row.affects(new(AttachedObjects), object), row.kind == api.DestinationRule; got != want {
			t.Errorf("%s: an object that is not attached affects the View: %v", row.kind, got)
		}
		if row.readers == 0 && row.kind != api.EnvoyFilter {
			t.Errorf("%s: no generator reads it", row.kind)
		}
	}
}
