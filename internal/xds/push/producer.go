package push

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// producer makes the resources of one generator for one scope, and has the newest Shelf of them. Pusher.mu guards it,
// but for its product, which belongs to the worker that makes the next one.
type producer struct {
	producerKey
	gen     *Generator
	classes map[*class]struct{}
	live    int // those of them that have clients

	product
	todo todo
	// busy says that it is in the queue or being made, inTurn that the turn waits for it.
	busy, inTurn bool
	failed       bool
	// pruned is the number of names after the last pruning.
	pruned int
	// provided, of endpoints, says for which clusters they were looked up.
	provided map[*producer]*stream.Shelf
	// voters is how many clients of its classes have a vote. votes is nil until one of them refuses something.
	voters     int
	candidates candidates
	votes      *votes
	// ancestor is nil if the first clients were in no class before.
	ancestor *ancestor
	// held is what is shown while the gate is closed, of what waits there.
	held *stream.Shelf
	// atGate, of endpoints that pass the gate, is the Shelf from when it closed; retained is what is shown meanwhile.
	atGate   *stream.Shelf
	retained retained
}

type producerKey struct {
	generator int
	scope     view.Key
}

// product is what a producer made last. It is immutable.
type product struct {
	view *view.View
	set  *resource.Set // as it was made
	// changed are those of the set that differ from the last product's, until it is taken in.
	changed []*resource.Resource
	shelf   *stream.Shelf // what is served of the set; nil: nothing was made yet
	// needs, of clusters, are the endpoints that follow them. If the Shelf differs little from the one before it, fresh are
	// the names that came since.
	needs, fresh []string
	before       *stream.Shelf
}

// todo is what a producer has to do.
type todo struct {
	delta snapshot.Delta
	wants []string // names to look up besides
	keep  []string // if not nil: all other names may be forgotten
}

func (t todo) empty() bool { return t.delta.Empty() && len(t.wants) == 0 }

// producer finds or makes the producer of a generator for a Key. Pusher.mu is held.
func (p *Pusher) producer(generator int, k view.Key) *producer {
	gen := &p.generators[generator]
	key := producerKey{generator, gen.scope(k)}
	pr := p.producers[key]
	if pr == nil {
		pr = &producer{producerKey: key, gen: gen, classes: map[*class]struct{}{}}
		p.producers[key] = pr
		pr.todo.delta.All = true // and will be made when its class has a client
	}
	return pr
}

// enqueue has a producer's todo done, unless nobody needs it. The turn under way, if there is one, waits for it if it is of
// the turn's own making; it does not wait for what clients ask for meanwhile. Pusher.mu is held.
func (p *Pusher) enqueue(pr *producer, own bool) {
	if pr.live == 0 {
		return
	}
	if own && !pr.inTurn && p.turn.pending > 0 {
		pr.inTurn = true
		p.turn.pending++
	}
	if !pr.busy {
		pr.busy = true
		p.work.push(pr)
	}
}

// mark has a producer brought up to the newest snapshot if the change touches it. Pusher.mu is held.
func (p *Pusher) mark(pr *producer, d snapshot.Delta) {
	if !pr.busy && !pr.failed && !p.touched(pr, d) {
		if !d.EndpointsOnly() && pr.todo.empty() { // else it rests, or the snapshots share most of what hangs on them
			pr.view = pr.view.On(p.snapshot)
		}
		return
	}
	if pr.gen.Inbound && pr.live > 0 && pr.shelf != nil {
		p.shut(false)
		p.gate.making[pr] = struct{}{}
	}
	pr.todo.delta.Merge(d)
	if pr.live > 0 && pr.gen.Named != nil && !d.EndpointsOnly() && pr.shelf != nil && len(pr.shelf.Asked()) > 2*pr.pruned+64 {
		pr.todo.keep = p.wanted(pr)
		pr.pruned = len(pr.todo.keep)
	}
	p.enqueue(pr, true)
}

// touched says whether the change may alter the product.
func (pr *producer) touched(s *snapshot.Snapshot, d snapshot.Delta) bool {
	switch {
	case pr.view == nil || d.All:
		return true
	case pr.gen.Touched != nil:
		return pr.gen.Touched(pr.view, s, d)
	case pr.gen.All != nil && d.EndpointsOnly():
		return false
	default:
		return pr.view.Touched(d)
	}
}

// want has names looked up that were not yet. It says whether there are any: then a new Shelf will come. Pusher.mu is held.
func (p *Pusher) want(pr *producer, names []string, own bool) bool {
	if pr.shelf != nil {
		names = without(names, pr.shelf.Asked())
	}
	if len(names) == 0 {
		return false
	}
	pr.todo.wants = union(pr.todo.wants, names)
	p.enqueue(pr, own)
	return true
}

// produce makes products until the context ends.
func (p *Pusher) produce(ctx context.Context) {
	for {
		pr, ok := p.work.pop(ctx)
		if !ok {
			return
		}
		p.mu.Lock()
		if pr.live == 0 { // it keeps its todo for when it is needed again
			p.rest(pr)
			p.mu.Unlock()
			continue
		}
		job, old, s := pr.todo, pr.product, p.snapshot
		pr.todo = todo{}
		p.mu.Unlock()
		next, err := p.make(pr, job, old, s)
		p.mu.Lock()
		p.made(pr, job, next, err)
		p.mu.Unlock()
	}
}

// made takes a product in. Pusher.mu is held.
func (p *Pusher) made(pr *producer, job todo, next product, err error) {
	if err != nil {
		p.failed(pr, job, err)
	} else {
		p.noteCandidates(pr, &next)
		p.offerCandidates(pr, &next)
		if _, awaited := p.gate.making[pr]; awaited && next.shelf != pr.shelf {
			p.serves(pr)
		}
		pr.product, pr.failed = next, false
	}
	if !pr.failed && !pr.todo.empty() {
		p.work.push(pr)
		return
	}
	p.rest(pr)
}

// rest notes that a producer has nothing to do. Pusher.mu is held.
func (p *Pusher) rest(pr *producer) {
	pr.busy = false
	delete(p.gate.making, pr)
	for cl := range pr.classes {
		p.settle(cl)
	}
	p.relax(p.clock.Now())
	if pr.inTurn && !pr.busy { // settling may have found more for it to do
		pr.inTurn = false
		p.finished()
	}
}

// failed keeps the old product of a producer whose generator panicked. It is tried again, from scratch, with the next
// change. Pusher.mu is held.
func (p *Pusher) failed(pr *producer, job todo, err error) {
	pr.failed = true
	pr.todo.delta.All = true
	pr.todo.wants = union(pr.todo.wants, job.wants)
	p.count.panics.Add(1)
	if p.recovery == nil { // else it has counted
		p.metrics.InternalError()
	}
	p.log.Error("a generator panicked; its proxies keep what they have", "type", api.ShortType(pr.gen.TypeURL), "view", pr.scope,
		"change", describe(job), "proxies", len(pr.classes), "err", err)
}

func describe(t todo) string {
	return fmt.Sprintf("all=%t services=%d endpoints=%d configs=%v names=%d", t.delta.All, len(t.delta.Services), len(t.delta.Endpoints), t.delta.Configs, len(t.wants))
}

// make makes the next product. Nothing of the Pusher is locked.
func (p *Pusher) make(pr *producer, job todo, old product, s *snapshot.Snapshot) (next product, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.recordGenerator(r, pr)
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	began := p.clock.Now()
	next = old
	if old.view == nil || !job.delta.Empty() {
		next.view = view.Build(s, pr.scope)
	}
	var generated int
	if pr.gen.All != nil {
		generated, err = makeAll(pr, job, &next)
	} else {
		generated = makeNamed(pr, job, &next)
	}
	p.count.add(pr.gen.TypeURL, generated)
	p.metrics.Generated(pr.gen.TypeURL, generated, p.clock.Now().Sub(began))
	if err != nil { // a bug of the generator, but what it made can be used
		p.metrics.InternalError()
		p.log.Error("a generator broke its contract", "type", api.ShortType(pr.gen.TypeURL), "err", err)
	}
	return next, nil
}

// makeAll brings all resources of a producer up to its View: those that differ, if its generator can tell.
func makeAll(pr *producer, job todo, next *product) (generated int, err error) {
	if old := pr.product; pr.gen.Update != nil && old.shelf != nil && old.view != nil && !job.delta.All {
		if diff, ok := pr.gen.Update(old.view, next.view, job.delta); ok {
			next.take(pr, old.set.With(diff.Updated, diff.Removed), diff.Updated)
			return len(diff.Updated), nil
		}
	}
	list := pr.gen.All(next.view)
	set, err := resource.NewSet(list)
	next.take(pr, set, resource.Compare(next.set, set).Updated)
	return len(list), err
}

// take puts the set on a new Shelf if it differs from the old one. changed are those of its members that may not have been
// there before.
func (next *product) take(pr *producer, set *resource.Set, changed []*resource.Resource) {
	old := next.shelf
	if old != nil && set.Version() == next.set.Version() {
		return
	}
	next.set, next.changed, next.shelf = set, changed, stream.NewShelf(set)
	if pr.gen.TypeURL != api.ClusterType {
		return
	}
	next.before, next.fresh = nil, nil
	if old == nil {
		next.needs = allEndpointsOf(set.List())
		return
	}
	// Names that nothing needs any more stay until everything is made anew: they cost little.
	next.before, next.fresh = old, allEndpointsOf(changed)
	next.needs = union(next.needs, next.fresh)
}

// makeNamed makes the named resources that the change affects and those that are wanted besides, and keeps the others.
func makeNamed(pr *producer, job todo, next *product) (generated int) {
	var before []string
	if next.shelf != nil {
		before = next.shelf.Asked()
	}
	asked := before
	var removed []string
	if job.keep != nil {
		asked = intersection(asked, job.keep)
		removed = without(before, asked)
	}
	again := job.wants
	if !job.delta.Empty() {
		again = union(affected(pr, next.view, job.delta, asked), job.wants)
	}
	updated := make([]*resource.Resource, 0, len(again))
	named := pr.gen.by(next.view, len(again))
	for _, n := range again {
		if r := named(n); r != nil {
			updated = append(updated, r)
		} else {
			removed = append(removed, n)
		}
	}
	set, names := next.set.With(updated, removed), union(asked, job.wants)
	if next.shelf == nil || set != next.set || !slices.Equal(names, before) {
		next.set, next.changed, next.shelf = set, updated, stream.NewNamedShelf(set, names)
	}
	return len(again)
}

// affected gives the names that a change may alter, sorted.
func affected(pr *producer, v *view.View, d snapshot.Delta, names []string) []string {
	if pr.gen.Affected == nil || d.All || pr.view == nil {
		return names
	}
	return slices.Compact(slices.Sorted(slices.Values(pr.gen.Affected(pr.view, v, d, names))))
}

func intersection(a, b []string) []string { return without(a, without(a, b)) }
