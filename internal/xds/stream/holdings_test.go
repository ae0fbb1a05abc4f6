package stream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestHoldings compares Holdings with a map under random changes.
func TestHoldings(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		want := map[string]string{}
		for i := range random.IntN(40) {
			want[fmt.Sprint("r", i)] = fmt.Sprint(random.IntN(3))
		}
		h := HoldingsOf(want)
		if random.IntN(2) == 0 {
			h = HoldingsOfSets(setListOf(t, want))
		}
		for range 30 {
			name := fmt.Sprint("r", random.IntN(50))
			switch random.IntN(6) {
			case 0:
				h.removeNames(name)
				delete(want, name)
			case 1:
				want[name] = "new"
				h = h.withVersion(name, "new")
			}
			version, holds := h.versionOf(name)
			if wanted, is := want[name]; version != wanted || holds != is {
				t.Fatalf("%s: held %t with version %q, want %t with %q", name, holds, version, is, wanted)
			}
		}
		if diff := cmp.Diff(want, maps.Collect(h.All()), cmpopts.EquateEmpty()); diff != "" || h.Len() != len(want) {
			t.Fatalf("Len = %d, want %d; -want +got:\n%s", h.Len(), len(want), diff)
		}
	}
}

// setListOf returns a SetList of two ResourceGroups with the given names and versions.
func setListOf(t *testing.T, versions map[string]string) *SetList {
	t.Helper()
	var lists [2][]*resource.Resource
	for name, version := range versions {
		at := len(name) % 2
		lists[at] = append(lists[at], &resource.Resource{Name: name, Version: version, TypeURL: "type"})
	}
	var groups []*ResourceGroup
	for _, list := range lists {
		set, err := resource.NewSet(list)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, NewResourceGroup(set))
	}
	return newSetList(groups)
}

// TestHoldingsAreSets checks that equalSets reports whether the held resources are exactly those of
// the sets.
func TestHoldingsAreSets(t *testing.T) {
	a, b := resource.FromBytes("a", "type", []byte{1}), resource.FromBytes("b", "type", []byte{2})
	one, err := resource.NewSet([]*resource.Resource{a})
	if err != nil {
		t.Fatal(err)
	}
	other, err := resource.NewSet([]*resource.Resource{b})
	if err != nil {
		t.Fatal(err)
	}
	sets := newSetList([]*ResourceGroup{NewResourceGroup(one), NewResourceGroup(other)})
	both := func() *Holdings { return HoldingsOf(map[string]string{"a": a.Version, "b": b.Version}) }
	if !both().equalSets(sets) {
		t.Error("equalSets = false for equal holdings")
	}
	dropped := both()
	dropped.removeNames("b")
	for name, h := range map[string]*Holdings{
		"none": nil, "fewer": HoldingsOf(map[string]string{"a": a.Version}), "dropped": dropped, "added again": dropped.withVersion("b", b.Version),
		"exchanged": HoldingsOf(map[string]string{"a": b.Version, "b": a.Version}),
	} {
		if h.equalSets(sets) {
			t.Errorf("%s: equalSets = true for different holdings", name)
		}
	}
}
