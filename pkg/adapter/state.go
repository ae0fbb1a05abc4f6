package adapter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// state is the last known state of a platform. It decides which services and instances exist.
type state struct {
	holdShare   float64
	maxServices int

	services map[ServiceKey]*known
	problems map[ServiceKey]error // the zero key is the platform
	// stale are the keys of problems that were not reported since Watch began.
	stale  map[ServiceKey]bool
	status Status
	// kept is how many instances are in use that the running call of Watch has not listed. Instances
	// of unreadable services are not included. After Synced, these are the held instances.
	kept    int
	held    time.Time // when the decision to hold them was made last
	started bool      // Synced was called once
	pending pending
	// The problems of the platform, the most important one first: the error of Watch, too many
	// services, and what Report reported.
	watchError, overflow, reported error
}

// known is a service and what the running call of Watch reported about it.
type known struct {
	// inUse is the service with all instances that exist: the reported and the kept ones.
	inUse Service
	// listed are the IDs of the instances that were reported since Watch began, nil if the service was
	// not. kept is how many instances of inUse are not listed.
	listed map[string]bool
	kept   int
	// unreadable is set if an error was reported since Watch began, and no service after it.
	unreadable bool
}

// pending is what was not emitted yet.
type pending struct {
	set, deleted map[ServiceKey]bool
	problems     map[ServiceKey]bool
	synced       bool
}

func newState(holdShare float64, maxServices int) state {
	s := state{
		holdShare: holdShare, maxServices: maxServices,
		services: map[ServiceKey]*known{}, problems: map[ServiceKey]error{},
	}
	s.resetPending()
	return s
}

func (s *state) resetPending() {
	s.pending = pending{set: map[ServiceKey]bool{}, deleted: map[ServiceKey]bool{}, problems: map[ServiceKey]bool{}}
}

// beginSession marks all services and problems as not reported yet.
func (s *state) beginSession() {
	s.overflow, s.reported, s.stale = nil, nil, map[ServiceKey]bool{}
	for k := range s.problems {
		s.stale[k] = k != ServiceKey{}
	}
	for k, x := range s.services {
		s.count(x, -1)
		if !s.started { // never emitted
			delete(s.services, k)
			delete(s.pending.set, k)
			continue
		}
		x.listed, x.kept, x.unreadable = nil, len(x.inUse.Instances), false
		s.count(x, 1)
	}
}

// endSession records that the platform cannot be read.
func (s *state) endSession(err error, now time.Time) {
	s.status.Failures++
	s.status.Error = err.Error()
	if s.status.Synced {
		s.status.Unreadable = now
	}
	s.status.Synced = false
	s.watchError = fmt.Errorf("cannot be read: %w", err)
	if s.started {
		s.watchError = fmt.Errorf("cannot be read: %w; the last known state stays in use", err)
	}
}

// set applies a report of a service. Before the session is synced, known instances are kept, and
// held ones are kept until they are reported.
func (s *state) set(service Service) {
	service.Namespace = cmp.Or(service.Namespace, DefaultNamespace)
	k := service.ServiceKey
	x := s.services[k]
	if x == nil {
		if len(s.services) >= s.maxServices {
			s.overflow = fmt.Errorf("has more than %d services; others are left out", s.maxServices)
			return
		}
		x = &known{}
		s.services[k] = x
		s.pending.set[k] = true
	} else {
		s.count(x, -1)
		if x.unreadable && s.status.Synced {
			x.kept = 0 // the guard of Synced did not concern it
		}
	}
	old := x.inUse
	x.inUse = withKept(service, x)
	x.kept = len(x.inUse.Instances) - len(service.Instances)
	x.unreadable = false
	x.listed = make(map[string]bool, len(service.Instances))
	for _, i := range service.Instances {
		x.listed[i.ID] = true
	}
	s.count(x, 1)
	if !old.Equal(&x.inUse) {
		s.pending.set[k] = true
	}
	delete(s.pending.deleted, k)
	s.setProblem(k, nil)
}

// withKept returns the service with the instances of x added that are not listed and therefore kept.
// An instance whose ID or whose address and ports the service lists is not kept.
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

// remove applies the deletion of a service. Instances that are kept stay.
func (s *state) remove(k ServiceKey) {
	k.Namespace = cmp.Or(k.Namespace, DefaultNamespace)
	x := s.services[k]
	switch {
	case x == nil:
		s.setProblem(k, nil)
	case !s.status.Synced && s.started && x.listed == nil:
		// Known from before, and not reported yet: the decision is left to Synced.
		s.setUnreadable(x, false)
		s.setProblem(k, nil)
	case x.kept == 0:
		s.drop(k, x)
	default:
		gone := x.inUse
		gone.Instances = nil
		s.set(gone)
	}
}

// drop removes a service and its problem.
func (s *state) drop(k ServiceKey, x *known) {
	s.count(x, -1)
	delete(s.services, k)
	delete(s.pending.set, k)
	if s.started {
		s.pending.deleted[k] = true
	}
	s.setProblem(k, nil)
}

// report sets or clears the problem of a service or of the platform.
func (s *state) report(k ServiceKey, err error) {
	if k.Name == "" {
		s.reported = err
		return
	}
	k.Namespace = cmp.Or(k.Namespace, DefaultNamespace)
	if x := s.services[k]; x != nil {
		s.setUnreadable(x, err != nil && x.listed == nil)
	}
	s.setProblem(k, err)
}

func (s *state) setUnreadable(x *known, unreadable bool) {
	s.count(x, -1)
	x.unreadable = unreadable
	s.count(x, 1)
}

// setProblem sets the problem of a service or of the platform, or clears it if err is nil.
func (s *state) setProblem(k ServiceKey, err error) {
	delete(s.stale, k)
	old, found := s.problems[k]
	switch {
	case err == nil && !found, err != nil && found && old.Error() == err.Error():
		return
	case err == nil:
		delete(s.problems, k)
	default:
		s.problems[k] = err
	}
	s.pending.problems[k] = true
	s.status.Problems = len(s.problems)
}

// platformProblem returns the problem of the platform itself, or nil.
func (s *state) platformProblem() error {
	switch {
	case s.watchError != nil:
		return s.watchError
	case s.status.Synced && s.kept > 0:
		return fmt.Errorf("%d instances that were known before the connection was lost are not listed; "+
			"they stay in use until they are registered again", s.kept)
	case s.overflow != nil:
		return s.overflow
	default:
		return s.reported
	}
}

// sync applies the end of the reports with which a session begins. It removes the services and
// instances that were not reported, or holds them if they are a large share.
func (s *state) sync(now time.Time) {
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
	switch {
	case !s.started:
		s.started, s.pending.synced = true, true
	case float64(s.kept) > s.holdShare*float64(s.status.Instances):
		s.held = now
	default:
		s.removeMissing()
	}
}

// removeMissing removes the instances that were not reported, and the services without any that were
// not reported.
func (s *state) removeMissing() {
	for _, k := range slices.SortedFunc(maps.Keys(s.services), ServiceKey.Compare) {
		x := s.services[k]
		switch {
		case x.unreadable:
		case x.listed == nil:
			s.drop(k, x)
		case x.kept > 0:
			s.count(x, -1)
			x.inUse.Instances = slices.DeleteFunc(slices.Clone(x.inUse.Instances), func(i Instance) bool { return !x.listed[i.ID] })
			x.kept = 0
			s.count(x, 1)
			s.pending.set[k] = true
		}
	}
}

// releaseHeld removes the held instances if they have been missing for hold, and the platform lists
// at least as many others. A platform that lists hardly anything is not trusted.
func (s *state) releaseHeld(now time.Time, hold time.Duration) {
	if !s.status.Synced || s.kept == 0 || now.Sub(s.held) < hold {
		return
	}
	if s.status.Instances-s.kept < s.kept {
		s.held = now // decide again after the same time
		return
	}
	s.removeMissing()
}

// count adds a service to the numbers of the status, or removes it.
func (s *state) count(x *known, sign int) {
	s.status.Services += sign
	s.status.Instances += sign * len(x.inUse.Instances)
	if !x.unreadable {
		s.kept += sign * x.kept
	}
}

// drain returns the pending change, and reports whether there is any. Before the first Synced it
// returns only problems.
func (s *state) drain(now time.Time) (Change, bool) {
	s.setProblem(ServiceKey{}, s.platformProblem())
	c := Change{Synced: s.pending.synced}
	for _, k := range slices.SortedFunc(maps.Keys(s.pending.problems), ServiceKey.Compare) {
		if c.Problems == nil {
			c.Problems = map[ServiceKey]error{}
		}
		c.Problems[k] = s.problems[k]
	}
	s.pending.problems = map[ServiceKey]bool{}
	if !s.started {
		return c, len(c.Problems) > 0
	}
	c.Deleted = slices.SortedFunc(maps.Keys(s.pending.deleted), ServiceKey.Compare)
	for _, k := range slices.SortedFunc(maps.Keys(s.pending.set), ServiceKey.Compare) {
		c.Set = append(c.Set, s.services[k].inUse)
	}
	s.resetPending()
	if len(c.Set)+len(c.Deleted) > 0 {
		s.status.LastChange = now
	}
	return c, c.Synced || len(c.Set)+len(c.Deleted)+len(c.Problems) > 0
}
