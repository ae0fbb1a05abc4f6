package resource

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func named(name string, body byte) *Resource { return FromBytes(name, "type", []byte{body}) }

func set(t *testing.T, list ...*Resource) *Set {
	t.Helper()
	s, err := NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDuplicateIsOmittedAndNamed(t *testing.T) {
	s, err := NewSet([]*Resource{named("b", 1), named("a", 1), named("b", 2)})
	if err == nil || s.Len() != 2 || s.Get("b").Body[0] != 1 {
		t.Errorf("got %d resources and error %v", s.Len(), err)
	}
}

func TestSetWithoutAnythingHasTheVersionOfNone(t *testing.T) {
	if got := set(t).Version(); got != (*Set)(nil).Version() {
		t.Errorf("an empty set has version %s, none has %s", got, (*Set)(nil).Version())
	}
}

// TestWithEqualsANewSet checks that With returns the same set as NewSet for the same resources, after
// any changes, for sets of one chunk and of many.
func TestWithEqualsANewSet(t *testing.T) {
	for _, size := range []int{20, 10 * chunkSize} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { checkWith(t, size) })
	}
}

// checkWith makes random changes to a set of up to size resources.
func checkWith(t *testing.T, size int) {
	random := rand.New(rand.NewPCG(1, 2))
	s, want := (*Set)(nil), map[string]*Resource{}
	for range 10_000 / size {
		var updated []*Resource
		var removed []string
		for _, i := range random.Perm(size)[:random.IntN(size/4)] {
			name := fmt.Sprintf("r%03d", i)
			if random.IntN(3) == 0 {
				removed = append(removed, name)
				delete(want, name)
				continue
			}
			r := named(name, byte(random.IntN(3)))
			updated = append(updated, r)
			if old := want[name]; old == nil || old.Version != r.Version {
				want[name] = r
			}
		}
		before := s
		s = s.With(updated, removed)
		if d := cmp.Diff(Compare(before, set(t, s.List()...)), Compare(before, s), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("the difference that is remembered is not the one that there is:\n%s", d)
		}
		var list []*Resource
		for _, r := range want {
			list = append(list, r)
		}
		fresh := set(t, list...)
		if diff := cmp.Diff(fresh.List(), s.List(), cmpopts.EquateEmpty()); diff != "" || fresh.Version() != s.Version() {
			t.Fatalf("version %s, want %s; list (-want +got):\n%s", s.Version(), fresh.Version(), diff)
		}
		checkLookups(t, s, want, size)
		if before != nil && slices.Equal(before.List(), s.List()) != (before == s) {
			t.Fatal("a set that did not change must stay the same one, and only such a one")
		}
	}
}

// checkLookups checks that Get, All and a Cursor find the wanted resources of a set, and no others.
func checkLookups(t *testing.T, s *Set, want map[string]*Resource, size int) {
	t.Helper()
	cursor := s.Cursor()
	for i := range size {
		name := fmt.Sprintf("r%03d", i)
		if got := s.Get(name); got != want[name] {
			t.Fatalf("Get(%s) = %v, want %v", name, got, want[name])
		}
		if i%3 == 0 {
			continue // skipped by the Cursor
		}
		if got := cursor.Find(name); got != want[name] {
			t.Fatalf("the Cursor finds %v for %s, want %v", got, name, want[name])
		}
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, s.List()) || len(got) != s.Len() {
		t.Fatalf("All has %d resources, List %d, Len is %d", len(got), len(s.List()), s.Len())
	}
}

// TestWithSharesChunks checks that With copies only the chunks that it changes, and that resources
// that are added one by one share chunks.
func TestWithSharesChunks(t *testing.T) {
	var s *Set
	for i := range 20 * chunkSize {
		s = s.With([]*Resource{named(fmt.Sprintf("r%05d", i), 1)}, nil)
	}
	if len(s.chunks) > 20 {
		t.Errorf("%d resources are in %d chunks of %d", s.Len(), len(s.chunks), chunkSize)
	}
	next := s.With([]*Resource{named("r00100", 2)}, nil)
	shared := 0
	for i, c := range next.chunks {
		if &c[0] == &s.chunks[i][0] {
			shared++
		}
	}
	if shared != len(s.chunks)-1 {
		t.Errorf("%d of %d chunks are shared, want all but one", shared, len(s.chunks))
	}
}

func TestCompareInvertsWith(t *testing.T) {
	a := set(t, named("a", 1), named("b", 1), named("c", 1))
	b := set(t, named("b", 2), named("c", 1), named("d", 1))
	d := Compare(a, b)
	if got := a.With(d.Updated, d.Removed); got.Version() != b.Version() {
		t.Errorf("the difference %v does not lead from one set to the other", d)
	}
}

func BenchmarkWith(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		list := make([]*Resource, n)
		for i := range list {
			list[i] = named(fmt.Sprintf("outbound|80||service-%05d.ns.svc.cluster.local", i), 1)
		}
		s, _ := NewSet(list)
		change := []*Resource{named(list[n/2].Name, 2)}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.With(change, nil)
			}
		})
	}
}
