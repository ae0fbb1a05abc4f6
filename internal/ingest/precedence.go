package ingest

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// precedence decides which object counts where several feeds have one of the same key: that of the feed that comes first in
// Options.Feeds. The others are Problems, and one of them takes its place when it goes.
type precedence struct {
	rank   map[string]int // by the name of a feed
	claims map[config.Key][]claim
}

// claim is one feed's object.
type claim struct {
	feed   string
	object *config.Config
}

func newPrecedence(feeds []Feed) *precedence {
	p := &precedence{rank: map[string]int{}, claims: map[config.Key][]claim{}}
	for i, f := range feeds {
		p.rank[f.Name()] = i
	}
	return p
}

// resolve returns the batch in which every object is the one that counts. The guard confines a panic to its event.
func (p *precedence) resolve(batch mesh.Batch, guard *registry.Guard) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		if e.Config == nil || many(e.Config.Kind) {
			out = append(out, e)
			continue
		}
		var resolved mesh.Batch
		if out, _ = guard.Try(out, registry.Read, e.Config.Key, e.Config.Origin, func() { resolved = p.object(nil, e) }); len(resolved) > 0 {
			out = append(out, resolved...)
		}
	}
	return out
}

// many says that there are too many objects of a kind for all to be kept here, and that they are nobody's to write: one cluster's
// API server has them, or one folder.
func many(kind api.Kind) bool {
	return kind == api.Pod || kind == api.EndpointSlice || kind == api.Node
}

// object takes in what one feed says of one object.
func (p *precedence) object(out mesh.Batch, e mesh.Event) mesh.Batch {
	key := e.Config.Key
	before := p.claims[key]
	after := slices.DeleteFunc(slices.Clone(before), func(c claim) bool { return c.feed == e.Source })
	if e.Op == mesh.Upsert {
		after = append(after, claim{e.Source, e.Config})
		slices.SortStableFunc(after, func(a, b claim) int { return cmp.Compare(p.rank[a.feed], p.rank[b.feed]) })
	}
	p.claims[key] = after
	switch {
	case len(after) == 0:
		delete(p.claims, key)
		out = append(out, e)
	case len(before) == 0 || after[0] != before[0]:
		out = append(out, mesh.Event{Op: mesh.Upsert, Source: after[0].feed, Config: after[0].object})
	}
	if len(before) < 2 && len(after) < 2 {
		return out
	}
	losers := after[min(1, len(after)):]
	for _, c := range before {
		if !slices.ContainsFunc(losers, func(l claim) bool { return l.feed == c.feed }) {
			out = append(out, unused(c, key, nil))
		}
	}
	for _, c := range losers {
		out = append(out, unused(c, key, &after[0]))
	}
	return out
}

// unused tells that an object does not count because of another; that mends itself with another as nil.
func unused(c claim, key config.Key, counts *claim) mesh.Event {
	problems := &mesh.Problems{Scope: "precedence of " + key.String()}
	if counts != nil {
		problems.List = []config.Problem{{
			Key: key, Origin: cmp.Or(c.object.Origin, c.feed), Severity: config.Error,
			Reason: "is also in " + cmp.Or(counts.object.Origin, counts.feed) + ", which counts; this one is not used",
		}}
	}
	return mesh.Event{Source: c.feed, Problems: problems}
}
