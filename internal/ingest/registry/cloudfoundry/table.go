package cloudfoundry

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"
)

// maxRegistrations limits the registrations of all routes together. Further ones are refused.
const maxRegistrations = 500_000

// maxRouteRegistrations limits the registrations of one route.
const maxRouteRegistrations = 20_000

// table has the routes and their registered instances. It is not safe for concurrent use.
type table struct {
	registerInterval, staleThreshold time.Duration
	// routes has the registrations by the address and port of the instance.
	routes map[route]map[string]registration
	// emptySince has the routes without registrations. They stay for emptyTimeout, so that the
	// restart of an application does not remove its route.
	emptySince map[route]time.Time
	size       int // the number of registrations of all routes
	// heardAt is when the last registration was received, of any instance.
	heardAt time.Time
	// suspended is set while registrations do not expire.
	suspended bool
}

// emptyTimeout is how long a route without instances exists. Requests then have status 503.
const emptyTimeout = 30 * time.Second

// registration is an instance of a route, and when it expires unless it is registered again.
type registration struct {
	instance
	lifetime  time.Duration
	expires   time.Time
	updatedAt time.Time // zero if unknown
}

// instance is the part of a registration that a service depends on.
type instance struct {
	properties
	tags map[string]string
}

// properties are the comparable part of an instance.
type properties struct {
	address            string
	port               uint16
	tls                bool   // the port requires TLS
	san                string // the name in the certificate of a port with TLS
	id, index, app     string
	segment, zone      string
	http2              bool
	behindRouteService bool
}

// newTable returns an empty table with the times of s.
func newTable(s Settings) *table {
	return &table{
		registerInterval: s.RegisterInterval, staleThreshold: s.StaleThreshold,
		routes: map[route]map[string]registration{}, emptySince: map[route]time.Time{},
	}
}

// key returns the address and port by which the table knows an instance of a route.
func (p *properties) key() string { return p.address + " " + strconv.Itoa(int(p.port)) }

// register adds an instance to a route, or extends its registration, and reports whether the
// instances of the route changed. A registration that is older than the known one of the same
// address and port is ignored; any other one sets t.heardAt. It returns an error, and adds nothing,
// if the table or the route is full. A lifetime that is missing or too long becomes the stale
// threshold.
func (t *table) register(r route, next registration, now time.Time) (changed bool, err error) {
	key := next.key()
	old, known := t.routes[r][key]
	if known && next.isOlderThan(old) {
		return false, nil
	}
	if next.lifetime <= 0 || next.lifetime > t.staleThreshold {
		next.lifetime = t.staleThreshold
	}
	next.expires, t.heardAt = now.Add(next.lifetime), now
	if !known {
		if t.size >= maxRegistrations || len(t.routes[r]) >= maxRouteRegistrations {
			return false, fmt.Errorf("more than %d registrations, or %d of one route: the instance %s is left out",
				maxRegistrations, maxRouteRegistrations, key)
		}
		t.size++
	}
	if t.routes[r] == nil {
		t.routes[r] = map[string]registration{}
	}
	t.routes[r][key] = next
	delete(t.emptySince, r)
	return !known || old.properties != next.properties || !maps.Equal(old.tags, next.tags), nil
}

// isOlderThan reports whether both registrations have a time and that of r is before that of o.
// Without a time, none is older.
func (r *registration) isOlderThan(o registration) bool {
	return !r.updatedAt.IsZero() && !o.updatedAt.IsZero() && r.updatedAt.Before(o.updatedAt)
}

// unregister removes an instance from a route, and reports whether the route had it. It
// returns false, and removes nothing, if the unregistration is older than the registration of the
// same address.
func (t *table) unregister(r route, gone registration, now time.Time) bool {
	key := gone.key()
	old, known := t.routes[r][key]
	if !known || gone.isOlderThan(old) {
		return false
	}
	t.remove(r, key, now)
	return true
}

// remove removes an instance from a route that has it, and records when the route became empty.
func (t *table) remove(r route, key string, now time.Time) {
	delete(t.routes[r], key)
	t.size--
	if len(t.routes[r]) == 0 {
		t.emptySince[r] = now
	}
}

// removeEmpty removes the routes that have had no instances for emptyTimeout, and returns them in
// no particular order.
func (t *table) removeEmpty(now time.Time) []route {
	var removed []route
	for r, since := range t.emptySince {
		if now.Sub(since) >= emptyTimeout {
			delete(t.emptySince, r)
			delete(t.routes, r)
			removed = append(removed, r)
		}
	}
	return removed
}

// errNotRepeated is reported while most registrations are not repeated.
var errNotRepeated = errors.New("most registrations of routes are no longer repeated: the emitters or NATS have failed; " +
	"known routes are kept until they are repeated or withdrawn")

// prune removes expired registrations and returns the routes that had them, in no particular order.
// If more than half of all registrations are overdue, it removes nothing and returns
// errNotRepeated: the emitters or the bus have failed, not the instances. The first call after that
// restarts the lifetime of all instead of removing any. A registration also stays if none of any
// instance was received in the second half of its lifetime, because emitters repeat routes at
// different times.
func (t *table) prune(now time.Time) ([]route, error) {
	overdue := 0
	for _, instances := range t.routes {
		for _, x := range instances {
			if x.isOverdue(t.registerInterval, now) {
				overdue++
			}
		}
	}
	if overdue > t.size/2 {
		t.suspended = true
		return nil, errNotRepeated
	}
	if t.suspended {
		t.extend(now)
		return nil, nil
	}
	var changed []route
	for r, instances := range t.routes {
		before := len(instances)
		for key, x := range instances {
			if x.expires.Before(now) && t.heardAt.After(x.expires.Add(-x.lifetime/2)) {
				t.remove(r, key, now)
			}
		}
		if len(instances) < before {
			changed = append(changed, r)
		}
	}
	return changed, nil
}

// isOverdue reports whether a registration has expired, or was last received or extended more than
// missedIntervals intervals ago.
func (r *registration) isOverdue(interval time.Duration, now time.Time) bool {
	return r.expires.Before(now) || now.Sub(r.expires.Add(-r.lifetime)) > missedIntervals*interval
}

// missedIntervals is the number of intervals after which a registration is overdue.
const missedIntervals = 2

// extend restarts the lifetime of all registrations, and lets them expire again: after an
// interruption, emitters need time to repeat them.
func (t *table) extend(now time.Time) {
	for _, instances := range t.routes {
		for key, x := range instances {
			x.expires = now.Add(x.lifetime)
			instances[key] = x
		}
	}
	t.suspended = false
}
