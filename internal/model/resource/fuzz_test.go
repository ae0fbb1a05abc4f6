package resource

import (
	"slices"
	"testing"
)

// FuzzDiff: the difference of two sets, applied to the first, yields the second, with its version.
// The difference between a set and itself is empty.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{2, 3, 4})
	f.Add([]byte{}, []byte{0, 0, 255})
	f.Add([]byte{16, 17, 18, 32}, []byte{16, 33, 18})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first)+len(second) > 512 {
			return
		}
		a, b := setOf(t, first), setOf(t, second)
		d := Compare(a, b)
		got := a.With(d.Updated, d.Removed)
		if got.Version() != b.Version() || !slices.EqualFunc(got.List(), b.List(), func(x, y *Resource) bool { return x.Name == y.Name && x.Version == y.Version }) {
			t.Errorf("%v and the difference %+v is %v, want %v", a.List(), d, got.List(), b.List())
		}
		if !Compare(b, got).Empty() || a.Version() == b.Version() != d.Empty() {
			t.Errorf("versions %s and %s, difference %+v", a.Version(), b.Version(), d)
		}
	})
}

// setOf makes a set of bytes: of each, four bits are a name and four a content.
func setOf(t *testing.T, text []byte) *Set {
	t.Helper()
	var list []*Resource
	seen := map[byte]bool{}
	for _, b := range text {
		if name := b & 15; !seen[name] {
			seen[name] = true
			list = append(list, FromBytes(string('a'+rune(name)), "type", []byte{b >> 4}))
		}
	}
	s, err := NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
