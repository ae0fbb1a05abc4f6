package status

import (
	"maps"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Facts are what conditions are made of. The functions may be called by any goroutine.
type Facts struct {
	Book *Book
	// InUse finds an object in the newest snapshot, nil if it is not in it.
	InUse func(config.Key) *config.Config
	// Problems gives what is wrong with objects as of the snapshot of that version; it may be an older one, and takes what time it
	// takes. Refusals gives what proxies refuse, of now.
	Problems func() (snapshot uint64, list []config.Problem)
	Refusals func() []config.Problem
	// Distribution counts this replica's proxies, which are served by the snapshot of that version or a newer one.
	Distribution func(objects map[config.Key]struct{}) (snapshot uint64, counts map[config.Key]Count)
}

// conditions judges Istio's objects.
type conditions struct {
	Facts
	// mine says of a revision whether its objects are to be written about.
	mine    func(revision string) bool
	reports *reports
	now     func() time.Time
	pace    Pace
	// open is since when objects are being counted, due when that may be done again.
	open map[config.Key]opened
	due  time.Time
}

// opened is an object that has not come everywhere yet.
type opened struct {
	generation int64
	since      time.Time
	told       time.Time // when its condition last said so
}

// countShare bounds what counting costs: there is a pause for as many times as long as it took.
const countShare = 20

func (c *conditions) kinds() map[api.Kind]struct{} {
	kinds := c.Book.kinds()
	maps.DeleteFunc(kinds, func(k api.Kind, _ struct{}) bool { return !conditional(k) })
	return kinds
}

// pending is an object whose generation is in use, and not seen everywhere.
type pending struct {
	*object
	entry
	found, refused []config.Problem
}

func (c *conditions) look(each func(func(*object))) (due []edit, again time.Duration) {
	if !c.Book.begun() {
		return nil, c.pace.Count
	}
	now := c.now()
	analyzed, list := c.Problems()
	found, refused := byKey(list), byKey(c.Refusals())
	var counting []pending
	unsure := false
	each(func(o *object) {
		if !c.mine(o.revision) {
			return
		}
		k := o.key()
		e, inUse, sure := c.taken(o)
		if e.generation == 0 {
			return // of another revision, or of a namespace that is not looked at
		}
		if !sure || e.snapshot > analyzed && !e.refused {
			unsure = true // another look will show
			return
		}
		v, isFault := fault(inUse, found[k], refused[k])
		progress, settled := o.status.settled(o.Generation)
		switch {
		case isFault:
		case !inUse:
			return
		case settled:
			v = sound(Count{}, found[k], refused[k])
			v.progress = progress
		default:
			counting = append(counting, pending{o, e, found[k], refused[k]})
			return
		}
		due = c.add(due, o, e, v, now)
	})
	due, again = c.count(due, counting, c.now())
	if again == 0 {
		again = c.pace.Slow // what proxies refuse is told by nobody
	}
	if unsure {
		again = min(again, c.pace.Count)
	}
	return due, again
}

// taken gives what this replica has taken up of an object, and whether it is in use; sure is false as long as that is not the object
// as it is at the API server.
func (c *conditions) taken(o *object) (e entry, inUse, sure bool) {
	e, _ = c.Book.get(o.key())
	if e.generation != o.Generation {
		return e, false, false
	}
	is := c.InUse(o.key())
	switch {
	case e.refused:
		return e, false, e.snapshot != 0
	case is == nil:
		return e, false, e.snapshot != 0
	case is.Hash != e.hash:
		return e, false, false
	case e.snapshot == 0: // what came was as what was there
		e.snapshot = c.Book.newest()
	}
	return e, true, true
}

func (c *conditions) add(due []edit, o *object, e entry, v verdict, now time.Time) []edit {
	v.generation = o.Generation
	if patch := o.status.with(v, now); patch != nil {
		due = append(due, edit{object: o, patch: patch, since: e.since})
	}
	return due
}

// count finds out how far objects have come that are not known to be everywhere.
func (c *conditions) count(due []edit, list []pending, now time.Time) ([]edit, time.Duration) {
	if left := c.due.Sub(now); len(list) > 0 && left > 0 {
		return due, left
	}
	was := c.open
	c.open = make(map[config.Key]opened, len(list))
	keys := make(map[config.Key]struct{}, len(list))
	for _, p := range list {
		keys[p.key()] = struct{}{}
	}
	if len(keys) == 0 {
		return due, 0
	}
	served, counts := c.Distribution(keys)
	rest := countShare * c.now().Sub(now)
	c.due = now.Add(rest)
	again := max(c.pace.Slow, rest)
	for _, p := range list {
		k := p.key()
		at, known := was[k]
		if !known || at.generation != p.Generation {
			at = opened{generation: p.Generation, since: now}
		}
		sum, complete := c.reports.add(k, p.Generation, counts[k], now.Sub(at.since), now)
		v := sound(sum, p.found, p.refused)
		if done := complete && served >= p.snapshot && sum.all(); !done {
			c.open[k] = at
			v.status, v.reason = "Unknown", Distributing
			if now.Sub(at.since) < c.pace.SlowAfter {
				again = max(c.pace.Count, rest)
			}
			if now.Sub(at.since) < c.pace.Settle || now.Sub(at.told) < c.pace.Tell {
				continue
			}
			at.told = now
			c.open[k] = at
		}
		due = c.add(due, p.object, p.entry, v, now)
	}
	if len(c.open) == 0 {
		again = 0
	}
	return due, again
}

func byKey(list []config.Problem) map[config.Key][]config.Problem {
	m := map[config.Key][]config.Problem{}
	for _, p := range list {
		m[p.Key] = append(m[p.Key], p)
	}
	return m
}
