package status

import (
	"maps"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Inputs provide the data that conditions are computed from. The functions must be safe for
// concurrent use.
type Inputs struct {
	Applied *AppliedObjects
	// InUse returns an object from the newest snapshot, or nil if it is not applied.
	InUse func(config.Key) *config.Config
	// Problems returns the problems of objects as of the returned snapshot version, which may be
	// older than the newest; it may take long. Refusals returns the resources that proxies reject
	// now, as problems of their objects.
	Problems func() (snapshot uint64, list []config.Problem)
	Refusals func() []config.Problem
	// Distribution counts this replica's proxies for the given objects. All its proxies are served
	// from the returned snapshot version or a newer one.
	Distribution func(objects map[config.Key]struct{}) (snapshot uint64, counts map[config.Key]Count)
}

// conditionEvaluator computes the conditions of Istio's objects.
type conditionEvaluator struct {
	Inputs
	// selectsRevision reports whether objects of a revision are written.
	selectsRevision func(revision string) bool
	reports         *reportCollector
	now             func() time.Time
	timing          Timing
	// distributing contains the objects being distributed. nextCount is when proxies may be counted
	// again.
	distributing map[config.Key]distribution
	nextCount    time.Time
}

// distribution is the state of an object that has not reached all proxies yet.
type distribution struct {
	generation int64
	since      time.Time
	reportedAt time.Time // when the condition was last updated
}

// countPauseFactor bounds the cost of counting: after each count there is a pause of this many
// times its duration.
const countPauseFactor = 20

// watchedKinds returns the kinds of applied objects whose status has conditions.
func (c *conditionEvaluator) watchedKinds() map[api.Kind]struct{} {
	kinds := c.Applied.knownKinds()
	maps.DeleteFunc(kinds, func(k api.Kind, _ struct{}) bool { return !hasConditions(k) })
	return kinds
}

// pending is an object whose generation is applied but not known to have reached all proxies.
type pending struct {
	*object
	appliedObject
	found, refused []config.Problem
}

// evaluate returns the edits of all selected objects whose condition should change, and when to
// evaluate again. That is later than SlowCountInterval only if counting takes long. Objects are
// skipped if a newer generation or analysis is missing, this replica does not know them, or they
// are neither in use nor faulty. Before the first snapshot all are skipped. Objects whose condition
// is True already are not counted again.
func (c *conditionEvaluator) evaluate(each func(func(*object))) (due []edit, again time.Duration) {
	if !c.Applied.hasSnapshot() {
		return nil, c.timing.CountInterval
	}
	now := c.now()
	analyzed, list := c.Problems()
	found, refused := groupByKey(list), groupByKey(c.Refusals())
	var counting []pending
	unsure := false
	each(func(o *object) {
		if !c.selectsRevision(o.revision) {
			return
		}
		k := o.key()
		e, inUse, sure := c.appliedState(o)
		if e.generation == 0 {
			return // of another revision or an ignored namespace
		}
		if !sure || e.snapshot > analyzed && !e.refused {
			unsure = true // evaluate again soon
			return
		}
		v, isFault := faultCondition(inUse, found[k], refused[k])
		progress, settled := o.status.finalProgress(o.Generation)
		switch {
		case isFault:
		case !inUse:
			return
		case settled:
			v = appliedCondition(Count{}, found[k], refused[k])
			v.progress = progress
		default:
			counting = append(counting, pending{o, e, found[k], refused[k]})
			return
		}
		due = c.appendEdit(due, o, e, v, now)
	})
	due, again = c.evaluatePending(due, counting, c.now())
	if again == 0 {
		again = c.timing.SlowCountInterval // changes of Refusals cause no notification
	}
	if unsure {
		again = min(again, c.timing.CountInterval)
	}
	return due, again
}

// appliedState returns what this replica has applied of an object, and whether it is in use. sure
// is false while that is not the generation in the API server or not in a snapshot yet. An object
// with unchanged content is in use at once, with the newest snapshot. The generation of e is 0 for
// an object that this replica does not know.
func (c *conditionEvaluator) appliedState(o *object) (e appliedObject, inUse, sure bool) {
	e, _ = c.Applied.lookup(o.key())
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
	case e.snapshot == 0: // unchanged content
		e.snapshot = c.Applied.newestVersion()
	}
	return e, true, true
}

// appendEdit returns due with an edit appended if the object's status differs from v. The
// generation of v is taken from the object.
func (c *conditionEvaluator) appendEdit(
	due []edit,
	o *object,
	e appliedObject,
	v conditionState,
	now time.Time,
) []edit {
	v.generation = o.Generation
	if patch := o.status.patchFor(v, now); patch != nil {
		due = append(due, edit{object: o, patch: patch, since: e.since})
	}
	return due
}

// evaluatePending counts the proxies of pending objects, and returns due with their edits appended
// and when to evaluate again; 0 means never. If the last count was too recent, it only returns the
// remaining time. Incomplete objects get the status Unknown after SettleDelay, updated every
// ProgressInterval. It replaces distributing, so objects that are not pending any longer are
// forgotten.
func (c *conditionEvaluator) evaluatePending(due []edit, list []pending, now time.Time) ([]edit, time.Duration) {
	if left := c.nextCount.Sub(now); len(list) > 0 && left > 0 {
		return due, left
	}
	was := c.distributing
	c.distributing = make(map[config.Key]distribution, len(list))
	keys := make(map[config.Key]struct{}, len(list))
	for _, p := range list {
		keys[p.key()] = struct{}{}
	}
	if len(keys) == 0 {
		return due, 0
	}
	served, counts := c.Distribution(keys)
	rest := countPauseFactor * c.now().Sub(now)
	c.nextCount = now.Add(rest)
	again := max(c.timing.SlowCountInterval, rest)
	for _, p := range list {
		k := p.key()
		at, known := was[k]
		if !known || at.generation != p.Generation {
			at = distribution{generation: p.Generation, since: now}
		}
		sum, complete := c.reports.addCounts(k, p.Generation, counts[k], now.Sub(at.since), now)
		v := appliedCondition(sum, p.found, p.refused)
		if done := complete && served >= p.snapshot && sum.isComplete(); !done {
			if now.Sub(at.since) < c.timing.SlowAfter {
				again = max(c.timing.CountInterval, rest)
			}
			if !c.recordDistributing(k, at, now) {
				continue
			}
			v.status, v.reason = "Unknown", Distributing
		}
		due = c.appendEdit(due, p.object, p.appliedObject, v, now)
	}
	if len(c.distributing) == 0 {
		again = 0
	}
	return due, again
}

// recordDistributing records in c.distributing that an object has not reached all proxies, and
// reports whether its condition is to be updated: after SettleDelay, every ProgressInterval.
func (c *conditionEvaluator) recordDistributing(k config.Key, at distribution, now time.Time) bool {
	due := now.Sub(at.since) >= c.timing.SettleDelay && now.Sub(at.reportedAt) >= c.timing.ProgressInterval
	if due {
		at.reportedAt = now
	}
	c.distributing[k] = at
	return due
}

// groupByKey returns the problems by object, in their order.
func groupByKey(list []config.Problem) map[config.Key][]config.Problem {
	m := map[config.Key][]config.Problem{}
	for _, p := range list {
		m[p.Key] = append(m[p.Key], p)
	}
	return m
}
