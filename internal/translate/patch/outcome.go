package patch

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// list is patches that may find something in one resource, in the order in which they are applied. There is one list of
// the same patches, as long as it is in use, so that a list can be part of what an output is remembered by.
type list struct {
	patches []*patch
	brought brought
}

// tally is what became of one patch.
type tally struct {
	// applied is how often the patch did what it says.
	applied int
	// depth is how far its match came where it did nothing.
	depth depth
	// reason is why it could not do it, where it could not.
	reason string
}

func (t *tally) add(o tally) {
	t.applied += o.applied
	t.depth = max(t.depth, o.depth)
	if t.reason == "" {
		t.reason = o.reason
	}
}

// depth is how far a match came, from the outside in.
type depth int

const (
	noResource depth = iota
	matchedResource
	matchedChain
	matchedNetworkFilter
	matchedVirtualHost
)

// tallies are those of a list's patches, in their order.
type tallies []tally

func (t tallies) did(i, n int)         { t[i].applied += n }
func (t tallies) reach(i int, d depth) { t[i].depth = max(t[i].depth, d) }

func (t tallies) fail(i int, err error) {
	if t[i].reason == "" {
		t[i].reason = err.Error()
	}
}

func (t tallies) join(o tallies) {
	for i := range o {
		t[i].add(o[i])
	}
}

// outcome is what patches made of a resource.
type outcome struct {
	// resource is nil where it was removed.
	resource *resource.Resource
	tallies  tallies
	hosts    []*hostOutcome // of a RouteConfiguration: kept for the next one, which may have most of them in common
}

// from gives the objects that shaped a resource: those of before, and those of patches that did something.
func (t tallies) from(before []config.Key, l *list) []config.Key {
	all := slices.Clone(before)
	for i, p := range l.patches {
		if t[i].applied > 0 {
			all = append(all, p.from)
		}
	}
	return all
}

// touched says whether any patch did something.
func (t tallies) touched() bool {
	return slices.ContainsFunc(t, func(x tally) bool { return x.applied > 0 })
}

// finish gives the outcome of patches on r: body is r's as patched, and name what it is called now. It is not r itself
// even where nothing was changed, for an outcome is remembered as long as its resource is in use.
func (t tallies) finish(r *resource.Resource, l *list, name string, body []byte) *outcome {
	o := &outcome{tallies: t}
	if !t.touched() {
		name, body = r.Name, r.Body
	}
	o.resource = resource.FromBytes(name, r.TypeURL, body, t.from(r.From, l)...)
	o.resource.Refers = r.Refers // of what patches lead to nothing is known
	o.resource.Parts = o
	return o
}
