package ingest

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// precedence selects one object where several feeds have an object with the same key: that of the
// first feed in Options.Feeds. The others get a Problem. If the selected object is deleted, the
// next one replaces it.
type precedence struct {
	rank       map[string]int // by the name of a feed
	candidates map[config.Key][]candidate
}

// candidate is the object of one feed.
type candidate struct {
	feed   string
	object *config.Config
}

// newPrecedence returns a precedence without objects, in which an earlier feed of the list precedes
// a later one.
func newPrecedence(feeds []Feed) *precedence {
	p := &precedence{rank: map[string]int{}, candidates: map[config.Key][]candidate{}}
	for i, f := range feeds {
		p.rank[f.Name()] = i
	}
	return p
}

// resolve returns a new batch with each event about an object replaced by the events of
// resolveObject. These are about the object of the feed that takes precedence, and the Problems of
// the others. Pods, EndpointSlices, Nodes and events without an object pass unchanged. If an event
// causes a panic, the guard replaces it by an event with a Problem, or lets the panic propagate
// without Recovery.
func (p *precedence) resolve(batch mesh.Batch, guard *registry.Guard) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		if e.Config == nil || isUnresolvedKind(e.Config.Kind) {
			out = append(out, e)
			continue
		}
		var resolved mesh.Batch
		out, _ = guard.Try(out, registry.Read, e.Config.Key, e.Config.Origin, func() {
			resolved = p.resolveObject(nil, e)
		})
		if len(resolved) > 0 {
			out = append(out, resolved...)
		}
	}
	return out
}

// isUnresolvedKind reports whether precedence ignores a kind, because keeping all its objects would
// cost too much memory. Pods, EndpointSlices and Nodes are written by a cluster, not by users, so
// two feeds do not normally have the same one.
func isUnresolvedKind(kind api.Kind) bool {
	return kind == api.Pod || kind == api.EndpointSlice || kind == api.Node
}

// resolveObject records the event of one feed and appends the resulting events to out. If another
// object or version now takes precedence, that is an Upsert from its feed. If several feeds have or
// had the object, events set the Problems of the overridden versions again and clear the Problems
// of the others. A deletion is appended only if no feed has the object any longer, or none had it.
func (p *precedence) resolveObject(out mesh.Batch, e mesh.Event) mesh.Batch {
	key := e.Config.Key
	before := p.candidates[key]
	after := slices.DeleteFunc(slices.Clone(before), func(c candidate) bool { return c.feed == e.Source })
	if e.Op == mesh.Upsert {
		after = append(after, candidate{e.Source, e.Config})
		slices.SortStableFunc(after, func(a, b candidate) int { return cmp.Compare(p.rank[a.feed], p.rank[b.feed]) })
	}
	p.candidates[key] = after
	switch {
	case len(after) == 0:
		delete(p.candidates, key)
		out = append(out, e)
	case len(before) == 0 || after[0] != before[0]:
		out = append(out, mesh.Event{Op: mesh.Upsert, Source: after[0].feed, Config: after[0].object})
	}
	if len(before) < 2 && len(after) < 2 {
		return out
	}
	losers := after[min(1, len(after)):]
	for _, c := range before {
		if !slices.ContainsFunc(losers, func(l candidate) bool { return l.feed == c.feed }) {
			out = append(out, overriddenEvent(c, key, nil))
		}
	}
	for _, c := range losers {
		out = append(out, overriddenEvent(c, key, &after[0]))
	}
	return out
}

// overriddenEvent returns an event that sets the Problem of candidate c: its object is not used,
// because counts takes precedence. If counts is nil, the event clears the Problem.
func overriddenEvent(c candidate, key config.Key, counts *candidate) mesh.Event {
	problems := &mesh.Problems{Scope: "precedence of " + key.String()}
	if counts != nil {
		problems.List = []config.Problem{{
			Code: code.DuplicateObject,
			Key:  key, Origin: cmp.Or(c.object.Origin, c.feed), Severity: config.Error,
			Reason: "is also in " + cmp.Or(counts.object.Origin, counts.feed) +
				", which takes precedence; this one is not used",
		}}
	}
	return mesh.Event{Source: c.feed, Problems: problems}
}
