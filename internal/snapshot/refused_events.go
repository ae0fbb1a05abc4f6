package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// An event that makes the Builder panic is refused: its changes are rolled back, the other events
// of the batch are applied, and the previous state of its object stays in use. The Builder keeps
// refused events and retries them, because a panic may depend on objects other than the event's
// own.

const (
	// maxRefused limits the refused events that are kept for retry. Further ones are dropped, until
	// the next event of the object.
	maxRefused = 1000
	// maxRetryInterval limits the number of Apply calls between two retries. The first interval is
	// one call, and it doubles after each failed retry.
	maxRetryInterval = 1024
)

// refusedSource is the source of the Problems of refused events.
const refusedSource = "snapshot"

// refusedEvent is an event that was refused, with the state of its retries.
type refusedEvent struct {
	event    mesh.Event
	at       uint64 // the number of the Apply call that retries it
	interval uint64
}

// refusedEvents are the refused events of a Builder, by subject.
type refusedEvents struct {
	events  map[subject]*refusedEvent
	applies uint64
}

// subject identifies the entity that an event is about.
type subject struct {
	// the object of the event, or the object from which the entity was converted
	key      config.Key
	service  mesh.ServiceKey
	shard    mesh.ShardKey
	provider mesh.Provider
	cluster  mesh.ClusterID
	source   string // for events that are about no object
}

// subjectOf returns the subject of an event: the object, service, shard, workload or source that it
// replaces. Events with the same subject replace each other. Events of other kinds have only their
// source.
func subjectOf(ev *mesh.Event) subject {
	switch {
	case ev.Config != nil:
		return subject{key: ev.Config.Key}
	case ev.Service != nil:
		return subject{
			key:      ev.Service.From,
			service:  ev.Service.ServiceKey,
			provider: ev.Service.Provider,
			cluster:  ev.Service.Cluster,
		}
	case ev.Shard != nil:
		return subject{key: ev.Shard.Key.Object, service: ev.Shard.Service, shard: ev.Shard.Key}
	case ev.Workload != nil:
		w := ev.Workload
		return subject{
			key:      config.Key{Kind: w.From.Kind, Namespace: w.Namespace, Name: w.Name},
			provider: w.Provider,
			cluster:  w.Cluster,
		}
	case ev.Gateways != nil:
		return subject{key: ev.Gateways.From, cluster: ev.Gateways.Cluster}
	default:
		return subject{source: ev.Source}
	}
}

// eventOrigin returns where the config object of an event was read, or "" for other events.
func eventOrigin(ev *mesh.Event) string {
	if ev.Config != nil {
		return ev.Config.Origin
	}
	return ""
}

// applyOrRollBack applies events in one edit. If that panics, it rolls the Builder back, records
// the panic (count, log), and returns a *recovery.Error. Without Options.Recovery the panic
// propagates.
func (b *Builder) applyOrRollBack(events []mesh.Event) (d Delta, err error) {
	e := b.newEdit()
	if b.options.Recovery == nil {
		_, d = e.applyAll(events)
		return d, nil
	}
	defer func() {
		if v := recover(); v != nil {
			e.rollback()
			about := []any{"events", len(events)}
			if len(events) == 1 {
				about = []any{
					"object",
					subjectOf(&events[0]).key.String(),
					"service",
					string(subjectOf(&events[0]).service.Host),
					"source",
					events[0].Source,
				}
			}
			err = b.options.Recovery.Record(v, "snapshot", about...)
		}
	}()
	_, d = e.applyAll(events)
	return d, nil
}

// refuseFailing applies a list of events in which at least one panics, and returns the Delta of the
// others. It bisects the list until the failing events are alone, and refuses those. reason is the
// error of the whole list.
func (b *Builder) refuseFailing(events []mesh.Event, reason error) Delta {
	if len(events) == 1 {
		return b.refuseEvent(events[0], reason)
	}
	var all Delta
	for _, half := range [][]mesh.Event{events[:len(events)/2], events[len(events)/2:]} {
		d, err := b.applyOrRollBack(half)
		if err != nil {
			d = b.refuseFailing(half, err)
		}
		all.Merge(d)
	}
	return all
}

// refuseEvent stores an event for retry and adds a Problem to its object. The interval, in calls of
// Apply, is 1 at first and doubles, up to maxRetryInterval, if the subject was refused before. It
// does nothing for a new subject if maxRefused events are stored. The Delta is of the Problem, and
// so empty.
func (b *Builder) refuseEvent(ev mesh.Event, reason error) Delta {
	k := subjectOf(&ev)
	r := b.refused.events[k]
	switch {
	case r != nil:
		r.event, r.interval = ev, min(2*r.interval, maxRetryInterval)
	case len(b.refused.events) < maxRefused:
		r = &refusedEvent{event: ev, interval: 1}
		b.refused.events[k] = r
	}
	if r == nil {
		return Delta{}
	}
	r.at = b.refused.applies + r.interval
	text := "internal error, please report it with the control plane's log: "
	var panicked *recovery.Error
	if errors.As(reason, &panicked) {
		text += panicked.Error() + ". "
	}
	return b.setRefusal(k, config.Problem{
		Code: code.InternalError,
		Key:  k.key, Origin: eventOrigin(&ev), Severity: config.Error,
		Reason: text + "This version is not used; the previous version stays in use",
	})
}

// clearRefusal deletes the refused event of a subject and its Problem. It returns the Delta of
// setRefusal, which is empty.
func (b *Builder) clearRefusal(k subject) Delta {
	delete(b.refused.events, k)
	return b.setRefusal(k)
}

// setRefusal replaces the Problems about the refusal of a subject by list, in a new snapshot if
// they differ. The Delta is empty, because Problems need no push.
func (b *Builder) setRefusal(k subject, list ...config.Problem) Delta {
	// setRefusal only replaces a list in a map, so it cannot panic.
	scope := fmt.Sprint(k)
	_, d := b.newEdit().
		applyAll([]mesh.Event{{Source: refusedSource, Problems: &mesh.Problems{Scope: scope, List: list}}})
	return d
}

// retryRefused counts a call of Apply and retries the refused events whose interval has passed.
// Events whose subject has a newer event in this batch are postponed to the next call. It clears
// the refusal of an event that now applies, and refuses the others again. It returns the merged
// Delta of all retries.
func (b *Builder) retryRefused(events []mesh.Event) Delta {
	b.refused.applies++
	if len(b.refused.events) == 0 {
		return Delta{}
	}
	for i := range events {
		if r := b.refused.events[subjectOf(&events[i])]; r != nil {
			r.at = b.refused.applies + 1 // the newer event of this batch replaces it
		}
	}
	var all Delta
	due := slices.SortedFunc(maps.Keys(b.refused.events), subject.compare)
	for _, k := range due {
		r := b.refused.events[k]
		if r.at > b.refused.applies {
			continue
		}
		d, err := b.applyOrRollBack([]mesh.Event{r.event})
		if err != nil {
			d = b.refuseEvent(r.event, err)
		} else {
			d.Merge(b.clearRefusal(k))
		}
		all.Merge(d)
	}
	return all
}

// compare orders subjects by key, service (namespace, then host), shard, provider, cluster and
// source. Only equal subjects have no order.
func (k subject) compare(o subject) int {
	return cmp.Or(
		k.key.Compare(o.key),
		cmp.Compare(k.service.Namespace, o.service.Namespace),
		cmp.Compare(k.service.Host, o.service.Host),
		cmp.Compare(k.shard.Provider, o.shard.Provider),
		cmp.Compare(k.shard.Cluster, o.shard.Cluster),
		k.shard.Object.Compare(o.shard.Object),
		cmp.Compare(k.provider, o.provider),
		cmp.Compare(k.cluster, o.cluster),
		cmp.Compare(k.source, o.source),
	)
}

// acceptApplied clears the refusals of all subjects of events for which a newer event than the
// refused one has been applied. Of several events only the last one of a subject counts.
func (b *Builder) acceptApplied(events []mesh.Event) {
	if len(b.refused.events) == 0 {
		return
	}
	seen := map[subject]bool{}
	for i := len(events) - 1; i >= 0; i-- {
		k := subjectOf(&events[i])
		if r := b.refused.events[k]; r != nil && !seen[k] && r.event != events[i] {
			b.clearRefusal(k)
		}
		seen[k] = true
	}
}
