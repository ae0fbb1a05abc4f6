package rollout

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Product is the newest output of one generator for one scope. It is immutable.
type Product struct {
	// group is the served part of the set; nil before the first run. Quarantined resources are
	// replaced in it.
	group *stream.ResourceGroup

	view *view.View
	set  *resource.Set // as generated
	// changed are the resources that differ from the previous Product, until the rollout has
	// compared them.
	changed []*resource.Resource
	// needs, of clusters, are the names of their endpoints. added are the resources that are new
	// since the previous ResourceGroup.
	needs, added []string
	before       *stream.ResourceGroup
}

// task is the pending work of a generator.
type task struct {
	delta snapshot.Delta
	names []string // to generate besides
	keep  []string // if not nil, all other names may be forgotten
}

// isEmpty reports whether the task has neither changes nor names.
func (t task) isEmpty() bool { return t.delta.Empty() && len(t.names) == 0 }

// String describes the task for the log.
func (t task) String() string {
	return fmt.Sprintf("all=%t services=%d endpoints=%d configs=%v names=%d",
		t.delta.All, len(t.delta.Services), len(t.delta.Endpoints), t.delta.Configs, len(t.names))
}

// generateAll generates the resources of a wildcard type for next.view and stores them in next,
// unless they have the same versions as before. It calls gen.Update, which generates only
// differences, if there is an old Product and t.delta.All is not set. Otherwise, or if Update
// returns false, it calls gen.All. It returns how many resources were generated. The error reports
// invalid ones of gen.All; the others are stored all the same.
func generateAll(gen *view.Generator, t task, old Product, next *Product) (generated int, err error) {
	if gen.Update != nil && old.group != nil && old.view != nil && !t.delta.All {
		if diff, ok := gen.Update(old.view, next.view, t.delta); ok {
			next.replaceSet(gen.TypeURL, old.set.With(diff.Updated, diff.Removed), diff.Updated)
			return len(diff.Updated), nil
		}
	}
	list := gen.All(next.view)
	set, err := resource.NewSet(list)
	next.replaceSet(gen.TypeURL, set, resource.Compare(next.set, set).Updated)
	return len(list), err
}

// replaceSet replaces the set and its ResourceGroup, and for clusters the names of the endpoints
// that they need. Of removed clusters the names stay. changed are the resources of the set that may
// be new. It does nothing if there is a set of the same version already.
func (next *Product) replaceSet(typeURL string, set *resource.Set, changed []*resource.Resource) {
	old := next.group
	if old != nil && set.Version() == next.set.Version() {
		return
	}
	next.set, next.changed, next.group = set, changed, stream.NewResourceGroup(set)
	if typeURL != api.ClusterType {
		return
	}
	next.before, next.added = nil, nil
	if old == nil {
		next.needs = allEndpointsOf(set.List())
		return
	}
	// Names of removed clusters stay until everything is generated from scratch: they cost little.
	next.before, next.added = old, allEndpointsOf(changed)
	next.needs = stream.MergeNames(next.needs, next.added)
}

// countResources adds the number of resources that were added, changed or removed between served
// and next to the active turn, if there is one. It adds nothing if served is nil: then the class is
// new.
func (r *Rollout) countResources(typeURL string, served *resource.Set, next *Product) {
	if n := countDifferences(served, next); n > 0 && r.turn.active {
		r.turn.resources[typeURL] += n
	}
}

// countDifferences returns how many resources in next.changed are new or differ from served, plus
// how many of served are missing in next. It returns 0 if served is nil: then nothing has changed,
// but the class is new.
func countDifferences(served *resource.Set, next *Product) int {
	if served == nil || next.set == served {
		return 0
	}
	added, changed := 0, 0
	for _, r := range next.changed {
		switch was := served.Get(r.Name); {
		case was == nil:
			added++
		case was.Version != r.Version:
			changed++
		}
	}
	removed := served.Len() + added - next.set.Len()
	return added + changed + max(removed, 0)
}

// generateNamed generates the named resources that the task's delta affects and its new names, and
// keeps the others in next. Names outside of t.keep are dropped unless t.keep is nil. A name
// without a resource is removed from the set but stays looked up. next keeps its set and group if
// both set and names are unchanged. It returns how many names were generated.
func generateNamed(gen *view.Generator, t task, old Product, next *Product) (generated int) {
	var before []string
	if next.group != nil {
		before = next.group.LookedUpNames()
	}
	asked := before
	var removed []string
	if t.keep != nil {
		asked = stream.IntersectNames(asked, t.keep)
		removed = slices.Clip(stream.SubtractNames(before, asked))
	}
	again := t.names
	if !t.delta.Empty() {
		again = stream.MergeNames(affectedNames(gen, old.view, next.view, t.delta, asked), t.names)
	}
	updated := make([]*resource.Resource, 0, len(again))
	lookup := lookupNamed(gen, next.view, len(again))
	for _, n := range again {
		if r := lookup(n); r != nil {
			updated = append(updated, r)
		} else {
			removed = append(removed, n)
		}
	}
	set, names := next.set.With(updated, removed), stream.MergeNames(asked, t.names)
	if next.group == nil || set != next.set || !stream.EqualNames(names, before) {
		next.set, next.changed, next.group = set, updated, stream.NewNamedResourceGroup(set, names)
	}
	return len(again)
}

// affectedNames returns, sorted, the elements of names whose resources the change d may alter. It
// returns all of names if the generator has no Affected, everything changed (d.All), or old is nil.
func affectedNames(gen *view.Generator, old, v *view.View, d snapshot.Delta, names []string) []string {
	if gen.Affected == nil || d.All || old == nil {
		return names
	}
	return slices.Compact(slices.Sorted(slices.Values(gen.Affected(old, v, d, names))))
}
