package stream

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestGroupListsAreShared checks that equal groups give the same GroupList, and that a
// ResourceSnapshot with the GroupList that it has is the same one.
func TestGroupListsAreShared(t *testing.T) {
	group := func(body string) *ResourceGroup {
		return NewResourceGroup(setOf([]*resource.Resource{resource.FromBytes("c", api.ClusterType, []byte(body))}))
	}
	a, b := group("a"), group("b")
	var none *GroupList
	one := none.WithGroups([]*ResourceGroup{a})
	if one.WithGroups([]*ResourceGroup{a}) != one {
		t.Error("the same groups give another list")
	}
	other := one.WithGroups([]*ResourceGroup{b})
	if other == one || other.version == one.version || other.sets.find("c") == one.sets.find("c") {
		t.Error("other groups give the same list")
	}
	w := NewResourceSnapshot(nil, nil).With(api.ClusterType, one)
	if w.With(api.ClusterType, one) != w {
		t.Error("a ResourceSnapshot is copied although its groups stay")
	}
	if next := w.With(api.ClusterType, other); next == w || next.Groups(api.ClusterType)[0] != b ||
		w.Groups(api.ClusterType)[0] != a {
		t.Error("With must return a copy with the new groups and not modify the ResourceSnapshot")
	}
}
