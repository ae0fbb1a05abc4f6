package cow

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

func TestVersionsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New[int, int]()
		model := map[int]int{}
		type version struct {
			m     *Map[int, int]
			model map[int]int
		}
		var versions []version
		for range rapid.IntRange(1, 8).Draw(t, "versions") {
			e := m.Edit()
			for range rapid.IntRange(0, 20).Draw(t, "edits") {
				k := rapid.IntRange(0, 40).Draw(t, "key")
				if rapid.Bool().Draw(t, "delete") {
					e.Delete(k)
					delete(model, k)
				} else {
					v := rapid.Int().Draw(t, "value")
					e.Set(k, v)
					model[k] = v
				}
				if e.Get(k) != model[k] {
					t.Fatalf("edit: key %d is %d, want %d", k, e.Get(k), model[k])
				}
			}
			m = e.Done()
			versions = append(versions, version{m, maps.Clone(model)})
		}
		for i, v := range versions {
			if got := maps.Collect(v.m.All()); !maps.Equal(got, v.model) || v.m.Len() != len(v.model) {
				t.Fatalf("version %d: %v (len %d), want %v", i, got, v.m.Len(), v.model)
			}
		}
	})
}

func TestDoneWithoutEditIsTheSameMap(t *testing.T) {
	m := New[string, int]()
	e := m.Edit()
	e.Delete("absent")
	if e.Done() != m {
		t.Error("an edit that changed nothing made a new version")
	}
}

func BenchmarkReplaceOne(b *testing.B) {
	e := New[int, *int]().Edit()
	for i := range 10_000 {
		e.Set(i, new(int))
	}
	m := e.Done()
	b.ReportAllocs()
	for i := range b.N {
		e := m.Edit()
		e.Set(i%10_000, new(int))
		m = e.Done()
	}
}
