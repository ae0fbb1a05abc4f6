package snapshot

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// An event over which the Builder panics is refused: it is taken back, the other events of the batch are applied, and what was
// known of its object before stays in use. The Builder keeps refused events and tries them again, because a panic may depend
// on other objects than the event's own.

const (
	// maxRefused bounds the refused events that are kept. One beyond it is dropped: its object's next event is the next chance.
	maxRefused = 1000
	// maxRetryInterval bounds how many calls of Apply lie between two attempts. The first interval is one, and each attempt
	// that fails doubles it.
	maxRetryInterval = 1024
)

// refusedSource is the source of the Problems of refused events.
const refusedSource = "snapshot"

// refusedEvent is an event that was refused.
type refusedEvent struct {
	event    mesh.Event
	at       uint64 // the Apply at which it is tried again
	interval uint64
}

// refusedEvents are those of a Builder, by what they are about.
type refusedEvents struct {
	events  map[subject]*refusedEvent
	applies uint64
}

// subject is what an event is about.
type subject struct {
	key      config.Key // of the object that the event is, or was made of
	service  mesh.ServiceKey
	shard    mesh.ShardKey
	provider mesh.Provider
	cluster  mesh.ClusterID
	source   string // of events that are about no object
}

func subjectOf(ev *mesh.Event) subject {
	switch {
	case ev.Config != nil:
		return subject{key: ev.Config.Key}
	case ev.Service != nil:
		return subject{key: ev.Service.From, service: ev.Service.ServiceKey, provider: ev.Service.Provider, cluster: ev.Service.Cluster}
	case ev.Shard != nil:
		return subject{key: ev.Shard.Key.Object, service: ev.Shard.Service, shard: ev.Shard.Key}
	case ev.Workload != nil:
		w := ev.Workload
		return subject{key: config.Key{Kind: w.From.Kind, Namespace: w.Namespace, Name: w.Name}, provider: w.Provider, cluster: w.Cluster}
	case ev.Gateways != nil:
		return subject{key: ev.Gateways.From, cluster: ev.Gateways.Cluster}
	default:
		return subject{source: ev.Source}
	}
}

// origin returns where the object of an event was read, "" if that is not known.
func origin(ev *mesh.Event) string {
	if ev.Config != nil {
		return ev.Config.Origin
	}
	return ""
}

// try is one edit. If it panics, the Builder is as it was before, and the error is an *recovery.Error.
func (b *Builder) try(events []mesh.Event) (d Delta, err error) {
	e := b.edit()
	if b.options.Recovery == nil {
		_, d = e.apply(events)
		return d, nil
	}
	defer func() {
		if v := recover(); v != nil {
			e.rollback()
			about := []any{"events", len(events)}
			if len(events) == 1 {
				about = []any{"object", subjectOf(&events[0]).key.String(), "service", string(subjectOf(&events[0]).service.Host), "source", events[0].Source}
			}
			err = b.options.Recovery.Record(v, "snapshot", about...)
		}
	}()
	_, d = e.apply(events)
	return d, nil
}

// isolate applies events of which some make the Builder panic: it halves the list until those are alone, and refuses them.
func (b *Builder) isolate(events []mesh.Event, reason error) Delta {
	if len(events) == 1 {
		return b.refuse(events[0], reason)
	}
	var all Delta
	for _, half := range [][]mesh.Event{events[:len(events)/2], events[len(events)/2:]} {
		d, err := b.try(half)
		if err != nil {
			d = b.isolate(half, err)
		}
		all.Merge(d)
	}
	return all
}

// refuse keeps an event for another attempt, and makes its object a Problem.
func (b *Builder) refuse(ev mesh.Event, reason error) Delta {
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
		Key: k.key, Origin: origin(&ev), Severity: config.Error, Reason: text + "This version is not used; what was known before stays in use",
	})
}

// accept removes what a refusal of the event's subject has left.
func (b *Builder) accept(k subject) Delta {
	delete(b.refused.events, k)
	return b.setRefusal(k)
}

func (b *Builder) setRefusal(k subject, list ...config.Problem) Delta {
	// Problems are a map from a scope to a list: nothing that panics.
	scope := k.key.String() + " " + k.service.Namespace + "/" + string(k.service.Host) + " " + string(k.cluster) + " " + k.source
	_, d := b.edit().apply([]mesh.Event{{Source: refusedSource, Problems: &mesh.Problems{Scope: scope, List: list}}})
	return d
}

// retry tries refused events again that are due, but for those that newer events replace.
func (b *Builder) retry(events []mesh.Event) Delta {
	b.refused.applies++
	if len(b.refused.events) == 0 {
		return Delta{}
	}
	for i := range events {
		if r := b.refused.events[subjectOf(&events[i])]; r != nil {
			r.at = b.refused.applies + 1 // the event of this batch decides
		}
	}
	var all Delta
	due := slices.SortedFunc(maps.Keys(b.refused.events), subject.compare)
	for _, k := range due {
		r := b.refused.events[k]
		if r.at > b.refused.applies {
			continue
		}
		d, err := b.try([]mesh.Event{r.event})
		if err != nil {
			d = b.refuse(r.event, err)
		} else {
			d.Merge(b.accept(k))
		}
		all.Merge(d)
	}
	return all
}

func (k subject) compare(o subject) int {
	return cmp.Or(k.key.Compare(o.key), cmp.Compare(k.service.Namespace, o.service.Namespace), cmp.Compare(k.service.Host, o.service.Host),
		cmp.Compare(k.cluster, o.cluster), cmp.Compare(k.source, o.source))
}

// acceptApplied removes the refusals of subjects of which a newer event than the refused one has been applied.
func (b *Builder) acceptApplied(events []mesh.Event) {
	if len(b.refused.events) == 0 {
		return
	}
	seen := map[subject]bool{}
	for i := len(events) - 1; i >= 0; i-- {
		k := subjectOf(&events[i])
		if r := b.refused.events[k]; r != nil && !seen[k] && r.event != events[i] {
			b.accept(k)
		}
		seen[k] = true
	}
}
