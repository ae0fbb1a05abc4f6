package registry_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

// TestIndex compares an Index with a map of sets.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x registry.Index[int, int]
		want := map[int]map[int]bool{1: {}, 2: {}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			k, v := rapid.IntRange(1, 2).Draw(t, "key"), rapid.IntRange(1, 4).Draw(t, "value")
			if rapid.Bool().Draw(t, "add") {
				x.Add(k, v)
				want[k][v] = true
			} else {
				x.Remove(k, v)
				delete(want[k], v)
			}
			for k, values := range want {
				var list []int
				for v := range values {
					list = append(list, v)
				}
				slices.Sort(list)
				if diff := cmp.Diff(list, slices.Sorted(x.Values(k))); diff != "" || x.Has(k) != (len(list) > 0) {
					t.Fatalf("key %d has %t: -want +got:\n%s", k, x.Has(k), diff)
				}
			}
		}
	})
}
