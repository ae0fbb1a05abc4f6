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

// What With returns is what NewSet returns of the same resources, whatever the way there.
func TestWithEqualsANewSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, want := (*Set)(nil), map[string]*Resource{}
	for range 500 {
		var updated []*Resource
		var removed []string
		for _, i := range random.Perm(20)[:random.IntN(5)] {
			name := fmt.Sprint("r", i)
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
		if before != nil && slices.Equal(before.List(), s.List()) != (before == s) {
			t.Fatal("a set that did not change must stay the same one, and only such a one")
		}
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
