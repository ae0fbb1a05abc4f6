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
	maxServices int

	services map[ServiceKey]*known
	problems map[ServiceKey]error // the zero key is the platform
	// stale are the keys of problems that were not reported since Watch began.
	stale  map[ServiceKey]bool
	status Status
	// generation is that of the last SyncedGeneration, "" after Synced.
	generation string
	// kept is how many instances are in use that the running call of Watch has not listed.
	// Instances of unreadable services are not included. After Synced, these are the held
	// instances.
	kept int
	// reportedHeld is how many instances in use have Instance.Held.
	reportedHeld int
	held         time.Time // when the decision to hold them was made last
	started      bool      // Synced was called once, or the state is that of an earlier process
	pending      pending
	// The problems of the platform, the most important one first: the error of Watch, too many
	// services, and what Report reported.
	watchError, overflow, reported error
}

// known is a service and what the running call of Watch reported about it.
type known struct {
	// inUse is the service with all instances that exist: the reported and the kept ones.
	inUse Service
	// listed are the IDs of the instances that were reported since Watch began, nil if the service
	// was not. kept is how many instances of inUse are not listed.
	listed map[string]bool
	kept   int
	// reportedHeld is how many instances of the last report have Instance.Held.
	reportedHeld int
	// unreadable is set if an error was reported since Watch began, and no service after it.
	unreadable bool
	// uncertain are the IDs of instances of inUse that no synced call of Watch with the state's
	// generation has listed. If they are missing, they are held.
	uncertain map[string]bool
}

// pending is what was not emitted yet.
type pending struct {
	set, deleted map[ServiceKey]bool
	problems     map[ServiceKey]bool
	synced       bool
}

// newState returns a state without services, which accepts at most maxServices.
func newState(maxServices int) state {
	s := state{
		maxServices: maxServices,
		services:    map[ServiceKey]*known{}, problems: map[ServiceKey]error{},
	}
	s.resetPending()
	return s
}

// resetPending sets the pending change to no change.
func (s *state) resetPending() {
	s.pending = pending{set: map[ServiceKey]bool{}, deleted: map[ServiceKey]bool{}, problems: map[ServiceKey]bool{}}
}

// beginSession marks all services and their problems as not reported yet, so that all instances are
// kept ones. It clears the overflow and the problem of the platform that the adapter reported.
// Before the first Synced it removes the services instead, because none was emitted.
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
		x.listed, x.kept, x.reportedHeld, x.unreadable = nil, len(x.inUse.Instances), 0, false
		s.count(x, 1)
	}
}

// endSession records that the platform cannot be read because of err, since now if the session was
// synced, and counts the failure. The session is no longer synced. Services stay in use.
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

// set applies a report of a service and clears its problem. Known instances that it lacks are kept
// until the session is synced, and held ones until they are released. A report after Synced of a
// service that was unreadable removes its unlisted instances, apart from uncertain ones. Beyond
// maxServices, a new service is left out, which is a problem of the platform.
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
		if x.unreadable && s.status.Synced {
			s.removeMissing(k, x, x.uncertain) // as Synced did for readable services
		}
		s.count(x, -1)
	}
	old := x.inUse
	x.inUse = withKept(service, x)
	x.kept = len(x.inUse.Instances) - len(service.Instances)
	x.unreadable = false
	x.listed, x.reportedHeld = make(map[string]bool, len(service.Instances)), 0
	for _, i := range service.Instances {
		x.listed[i.ID] = true
		if i.Held {
			x.reportedHeld++
		}
	}
	x.setUncertain(&old, s.started && !s.status.Synced)
	s.count(x, 1)
	if !old.Equal(&x.inUse) {
		s.pending.set[k] = true
	}
	delete(s.pending.deleted, k)
	s.setProblem(k, nil)
}

// remove applies the deletion of a service and clears its problem. Before the session is synced, a
// service that was not reported in it stays until Synced. Otherwise the instances that the session
// listed are removed. The service is removed too, unless it still has kept instances, which are
// known from before and were not listed.
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
		if len(x.inUse.Instances) == 0 {
			s.drop(k, x)
		}
	}
}

// drop removes a service and its problem, and emits the deletion if the service was emitted.
func (s *state) drop(k ServiceKey, x *known) {
	s.count(x, -1)
	delete(s.services, k)
	delete(s.pending.set, k)
	if s.started {
		s.pending.deleted[k] = true
	}
	s.setProblem(k, nil)
}

// report sets the problem of a service, or of the platform if k has no name. If err is nil, it
// clears the problem. A service with an error that was not reported since Watch began becomes
// unreadable, which protects it from removal; any other service becomes readable.
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

// setUnreadable sets whether a service could not be read, and updates the numbers of the status.
func (s *state) setUnreadable(x *known, unreadable bool) {
	s.count(x, -1)
	x.unreadable = unreadable
	s.count(x, 1)
}

// setProblem sets the problem of a service, or of the platform for the zero key, and clears it if
// err is nil. An equal problem is no change. In each case the problem is no longer stale.
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

// platformProblem returns the problem of the platform itself, or nil. If there are several, a
// failed watch precedes held instances, an overflow and the problem that the adapter reported.
func (s *state) platformProblem() error {
	switch {
	case s.watchError != nil:
		return s.watchError
	case s.status.Synced && s.kept > 0:
		return fmt.Errorf("%d instances that were known before are not listed, which may be a loss of data; "+
			"they stay in use until they are registered again", s.kept)
	case s.overflow != nil:
		return s.overflow
	default:
		return s.reported
	}
}

// count adds sign times the numbers of a service to the status: 1 adds it and -1 removes it.
// Callers do this before and after each change of x.
func (s *state) count(x *known, sign int) {
	s.status.Services += sign
	s.status.Instances += sign * len(x.inUse.Instances)
	s.reportedHeld += sign * x.reportedHeld
	if !x.unreadable {
		s.kept += sign * x.kept
	}
}

// drain returns the pending change, sorted by service, forgets it and reports whether there is any.
// Before the first Synced it returns only problems, and the rest stays pending. The problem of the
// platform itself is updated first.
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
