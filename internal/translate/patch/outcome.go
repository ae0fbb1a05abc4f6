package patch

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// list is patches that may match something in one resource, in the order of application. Lists of
// equal patches have the same pointer as long as it is in use, so that keys of caches can contain
// it.
type list struct {
	patches []*patch
	values  patchValues
}

// tally is the result of one patch.
type tally struct {
	// applied is how often the patch had an effect.
	applied int
	// depth is how far its match succeeded.
	depth depth
	// reason is why the patch failed, or "".
	reason string
}

// addTally adds the result o to t: effects are summed, and t keeps the greater depth and, unless it
// has a reason, takes the reason of o.
func (t *tally) addTally(o tally) {
	t.applied += o.applied
	t.depth = max(t.depth, o.depth)
	if t.reason == "" {
		t.reason = o.reason
	}
}

// depth is how far a match succeeded, from the outside in.
type depth int

const (
	noResource depth = iota
	matchedResource
	matchedChain
	matchedNetworkFilter
	matchedVirtualHost
)

// tallies are the results of a list's patches, in their order.
type tallies []tally

// recordEffects records n effects of patch i.
func (t tallies) recordEffects(i, n int) { t[i].applied += n }

// recordDepth records that the match of patch i succeeded as far as d, unless it has succeeded
// further.
func (t tallies) recordDepth(i int, d depth) { t[i].depth = max(t[i].depth, d) }

// fail records why patch i failed. The first reason is kept.
func (t tallies) fail(i int, err error) {
	if t[i].reason == "" {
		t[i].reason = err.Error()
	}
}

// addTallies adds the results o of the same patches to t, one by one.
func (t tallies) addTallies(o tallies) {
	for i := range o {
		t[i].addTally(o[i])
	}
}

// outcome is the result of patching a resource.
type outcome struct {
	// resource is nil if it was removed.
	resource *resource.Resource
	tallies  tallies
	hosts    []*hostOutcome // of a RouteConfiguration, referenced so that they stay cached
}

// contributors returns the objects that contributed to a resource: the objects in before, and the
// objects of patches of l that had an effect. before is not modified.
func (t tallies) contributors(before []config.Key, l *list) []config.Key {
	all := slices.Clone(before)
	for i, p := range l.patches {
		if t[i].applied > 0 {
			all = append(all, p.from)
		}
	}
	return all
}

// hasEffect reports whether any patch had an effect.
func (t tallies) hasEffect() bool {
	return slices.ContainsFunc(t, func(x tally) bool { return x.applied > 0 })
}

// finish returns the outcome of the patches of l on r. name and body are of the patched resource;
// if no patch had an effect, the name and body of r are used. The outcome's resource is never r
// itself, because the outcome stays cached as long as its resource is in use.
func (t tallies) finish(r *resource.Resource, l *list, name string, body []byte) *outcome {
	o := &outcome{tallies: t}
	if !t.hasEffect() {
		name, body = r.Name, r.Body
	}
	o.resource = resource.FromBytes(name, r.TypeURL, body, t.contributors(r.From, l)...)
	o.resource.Refers, o.resource.Pins = r.Refers, r.Pins // References in patches are unknown.
	o.resource.Parts = o
	return o
}
