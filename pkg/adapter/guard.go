package adapter

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// withKept returns the service with kept instances of x added: instances in use that this session
// has not listed. An instance whose ID or whose address and ports the service has is not added. It
// changes neither argument.
func withKept(service Service, x *known) Service {
	if x.kept == 0 {
		return service
	}
	ids, places := map[string]bool{}, map[string]bool{}
	for _, i := range service.Instances {
		ids[i.ID], places[place(i)] = true, true
	}
	service.Instances = slices.Clip(service.Instances)
	for _, i := range x.inUse.Instances {
		if !x.listed[i.ID] && !ids[i.ID] && !places[place(i)] {
			service.Instances = append(service.Instances, i)
		}
	}
	return service
}

// place returns a text that is equal for instances that are reached at the same address and ports.
func place(i Instance) string { return fmt.Sprint(i.Network, "/", i.Address, "/", i.Ports) }

// setUncertain updates x.uncertain after a report of the service; old is the service before.
// partial is set before Synced: then listed instances that are not in old become uncertain, because
// the generation of the report is not known. Otherwise listed instances are no longer uncertain.
func (x *known) setUncertain(old *Service, partial bool) {
	if !partial {
		maps.DeleteFunc(x.uncertain, func(id string, _ bool) bool { return x.listed[id] })
		return
	}
	before := make(map[string]bool, len(old.Instances))
	for _, i := range old.Instances {
		before[i.ID] = true
	}
	for id := range x.listed {
		if !before[id] {
			if x.uncertain == nil {
				x.uncertain = map[string]bool{}
			}
			x.uncertain[id] = true
		}
	}
}

// missing returns the IDs of the instances in use that are not listed, or nil if there are none.
func (x *known) missing() map[string]bool {
	var ids map[string]bool
	for _, i := range x.inUse.Instances {
		if !x.listed[i.ID] {
			if ids == nil {
				ids = map[string]bool{}
			}
			ids[i.ID] = true
		}
	}
	return ids
}

// sync applies the end of the reports with which a session begins, unless that is done already. If
// generation is not empty and equals the last sync's, missing services and instances are removed,
// apart from uncertain instances. Otherwise missing instances are held. A service reported as
// unreadable stays, and problems that were not reported again are cleared.
func (s *state) sync(generation string, now time.Time) {
	if s.status.Synced {
		return
	}
	s.status.Synced, s.status.LastSync, s.status.Unreadable, s.status.Error = true, now, time.Time{}, ""
	s.watchError = nil
	for k, stale := range s.stale {
		if stale {
			s.setProblem(k, nil)
		}
	}
	if !s.started {
		s.started, s.pending.synced = true, true
	}
	certain := generation != "" && generation == s.generation
	s.generation, s.held = generation, now
	for _, k := range slices.SortedFunc(maps.Keys(s.services), ServiceKey.Compare) {
		switch x := s.services[k]; {
		case x.unreadable && certain:
		case x.unreadable:
			x.uncertain = x.missing()
		case certain:
			s.removeMissing(k, x, x.uncertain)
			s.holdMissing(k, x)
		default:
			s.holdMissing(k, x)
		}
	}
}

// holdMissing holds the instances of a service that are not listed. It removes a service that was
// not reported and has no instances.
func (s *state) holdMissing(k ServiceKey, x *known) {
	if x.uncertain = x.missing(); x.listed == nil && x.uncertain == nil {
		s.drop(k, x)
	}
}

// removeMissing removes the instances of a service that are not listed, apart from those in keep,
// and marks the service as changed. It does nothing if all are listed.
func (s *state) removeMissing(k ServiceKey, x *known, keep map[string]bool) {
	if x.kept == 0 {
		return
	}
	s.count(x, -1)
	x.inUse.Instances = slices.DeleteFunc(slices.Clone(x.inUse.Instances),
		func(i Instance) bool { return !x.listed[i.ID] && !keep[i.ID] })
	x.kept = len(x.missing())
	s.count(x, 1)
	s.pending.set[k] = true
}

// releaseHeld removes the held instances of readable services if they have been missing for hold,
// and the platform lists at least as many others. If it lists fewer, its data may be lost, and
// releaseHeld decides again after the same time. It does nothing before the session is synced.
func (s *state) releaseHeld(now time.Time, hold time.Duration) {
	if !s.status.Synced || s.kept == 0 || now.Sub(s.held) < hold {
		return
	}
	if s.status.Instances-s.kept < s.kept {
		s.held = now // decide again after the same time
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.services), ServiceKey.Compare) {
		if x := s.services[k]; !x.unreadable {
			s.removeMissing(k, x, nil)
			s.holdMissing(k, x)
		}
	}
}
