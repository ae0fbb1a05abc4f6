package eureka

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// table is the last known state of all instances. It decides which instances exist.
type table struct {
	instances map[key]*entry
}

// entry is a known instance.
type entry struct {
	instance
	// missing is when a list without the instance was first received, zero if the last one has it.
	// The instance is then held.
	missing time.Time
	// converted are the services of the instance alone, and problem is what is invalid in it.
	// Settings.services stores both, because most instances are the same at its next call.
	// converted is nil before.
	converted []adapter.Service
	problem   error
}

// newTable returns a table without instances.
func newTable() *table { return &table{instances: map[key]*entry{}} }

// applyDelta applies the instances of a server's list of changes: it removes the deleted ones and
// sets the others, which ends their hold. It returns the names of the applications whose instances
// changed, in a new map. A deletion of an unknown instance changes nothing.
func (t *table) applyDelta(changes []instance) (changed map[string]bool) {
	changed = map[string]bool{}
	for _, i := range changes {
		if i.Action == actionDeleted {
			if t.instances[i.key()] != nil {
				delete(t.instances, i.key())
				changed[i.App] = true
			}
			continue
		}
		t.set(i, changed)
	}
	return changed
}

// set stores an instance that a server lists, which ends its hold. If the instance is new, was held
// or differs, it adds the application to changed. Instances are compared as a whole.
func (t *table) set(i instance, changed map[string]bool) {
	i.Action = ""
	known := t.instances[i.key()]
	if known != nil && known.missing.IsZero() && reflect.DeepEqual(known.instance, i) {
		return
	}
	t.instances[i.key()] = &entry{instance: i}
	changed[i.App] = true
}

// applyList applies a list of all instances and stores the listed ones, which are no longer held.
// Instances that are not listed are held from now on, and removed when expire permits it. It
// returns the names of the applications with instances that changed, were removed, or are held or
// no longer held.
func (t *table) applyList(listed []instance, now time.Time) (changed map[string]bool) {
	changed = map[string]bool{}
	isListed := make(map[key]bool, len(listed))
	for _, i := range listed {
		isListed[i.key()] = true
		t.set(i, changed)
	}
	for k, e := range t.instances {
		if !isListed[k] && e.missing.IsZero() {
			e.missing = now
			changed[k.app] = true
		}
	}
	maps.Copy(changed, t.expire(now))
	return changed
}

// expire removes held instances whose lease has passed since the first list without them, and
// returns the names of their applications. Running instances would have registered again in that
// time. While more than half of all instances are held, it removes none: the server is still
// missing registrations.
func (t *table) expire(now time.Time) (changed map[string]bool) {
	changed = map[string]bool{}
	if held := t.held(); held == 0 || held > len(t.instances)/2 {
		return changed
	}
	for k, e := range t.instances {
		if !e.missing.IsZero() && now.Sub(e.missing) >= e.Lease.duration() {
			delete(t.instances, k)
			changed[k.app] = true
		}
	}
	return changed
}

// held returns the number of instances that are in use although the server does not list them.
func (t *table) held() int {
	n := 0
	for _, e := range t.instances {
		if !e.missing.IsZero() {
			n++
		}
	}
	return n
}

// hash returns the hash code of the instances that the server lists, as Eureka computes it.
// Instances that are only held do not count.
func (t *table) hash() string {
	counts := map[string]int{}
	for _, e := range t.instances {
		if e.missing.IsZero() {
			counts[e.Status]++
		}
	}
	var b strings.Builder
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s_%d_", status, counts[status])
	}
	return b.String()
}
