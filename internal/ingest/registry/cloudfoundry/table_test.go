package cloudfoundry

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// testTable is a table with a clock and default settings: registrations every 20 s, expiry after
// 120 s.
type testTable struct {
	*table
	t   *testing.T
	now time.Time
}

func newTestTable(t *testing.T) *testTable {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &testTable{newTable(DefaultSettings()), t, start}
}

func instanceAt(address string, port uint16) registration {
	return registration{instance: instance{properties: properties{address: address, port: port}}}
}

func (t *testTable) mustRegister(r route, x registration) bool {
	t.t.Helper()
	changed, err := t.register(r, x, t.now)
	if err != nil {
		t.t.Fatal(err)
	}
	return changed
}

// passTime advances the clock in steps of the interval, with a prune after each step, and repeats
// these registrations. It returns the number of routes that changed and the last error.
func (t *testTable) passTime(d time.Duration, repeated map[route]registration) (changed int, err error) {
	t.t.Helper()
	for end := t.now.Add(d); t.now.Before(end); {
		t.now = t.now.Add(t.registerInterval / 2)
		for r, x := range repeated {
			t.mustRegister(r, x)
		}
		var list []route
		list, err = t.prune(t.now)
		changed += len(list)
	}
	return changed, err
}

var web, api = route{host: "web.example.com"}, route{host: "api.example.com"}

func TestRegisterReportsChangesOnly(t *testing.T) {
	x := newTestTable(t)
	first := instanceAt("10.0.0.1", 61001)
	if !x.mustRegister(web, first) {
		t.Error("the first registration is not a change")
	}
	if x.mustRegister(web, first) {
		t.Error("a repeated registration is a change")
	}
	first.tags = map[string]string{"app_name": "web"}
	if !x.mustRegister(web, first) {
		t.Error("other tags are no change")
	}
	if !x.unregister(web, instanceAt("10.0.0.1", 61001), x.now) || x.size != 0 || len(x.routes[web]) != 0 {
		t.Errorf("left after the unregistration: %v", x.routes)
	}
	if gone := x.removeEmpty(x.now.Add(emptyTimeout / 2)); len(gone) > 0 {
		t.Errorf("removed at once: %v", gone)
	}
	if gone := x.removeEmpty(x.now.Add(emptyTimeout)); len(gone) != 1 || len(x.routes) > 0 {
		t.Errorf("removed %v, left %v", gone, x.routes)
	}
	if x.unregister(web, instanceAt("10.0.0.1", 61001), x.now) {
		t.Error("the second unregistration is a change")
	}
}

func TestRegistrationsExpire(t *testing.T) {
	x := newTestTable(t)
	x.mustRegister(web, instanceAt("10.0.0.1", 1))
	x.mustRegister(api, instanceAt("10.0.0.2", 2))
	others := map[route]registration{api: instanceAt("10.0.0.2", 2)}
	if n, err := x.passTime(110*time.Second, others); n > 0 || err != nil {
		t.Fatalf("%d routes changed before the threshold: %v", n, err)
	}
	if n, err := x.passTime(20*time.Second, others); n != 1 || err != nil || len(x.routes[web]) > 0 || len(x.routes[api]) != 1 {
		t.Errorf("after the threshold %d routes changed (%v): %v", n, err, x.routes)
	}
}

func TestLifetimeOfMessageIsLimited(t *testing.T) {
	for lifetime, want := range map[time.Duration]time.Duration{
		0: 2 * time.Minute, 30 * time.Second: 30 * time.Second, time.Hour: 2 * time.Minute, -time.Second: 2 * time.Minute,
	} {
		x := newTestTable(t)
		r := instanceAt("10.0.0.1", 1)
		r.lifetime = lifetime
		x.mustRegister(web, r)
		if got := x.routes[web][r.key()].expires.Sub(x.now); got != want {
			t.Errorf("lifetime %v: expires after %v, want %v", lifetime, got, want)
		}
	}
}

// TestFailedEmittersRemoveNothing: no routes expire while all emitters have failed, or one of two.
func TestFailedEmittersRemoveNothing(t *testing.T) {
	x := newTestTable(t)
	repeated := map[route]registration{}
	for i := range 10 {
		r := route{host: fmt.Sprintf("app-%d.example.com", i)}
		repeated[r] = instanceAt("10.0.0.1", uint16(i+1))
		x.mustRegister(r, repeated[r])
	}
	if n, err := x.passTime(time.Hour, nil); n > 0 || !errors.Is(err, errNotRepeated) || x.size != 10 {
		t.Fatalf("without emitters %d routes changed, %d are left: %v", n, x.size, err)
	}
	// More than half of the registrations are missing.
	few, most := map[route]registration{}, map[route]registration{}
	for r, i := range repeated {
		if i.port <= 4 {
			few[r] = i
		}
		if i.port <= 6 {
			most[r] = i
		}
	}
	if n, err := x.passTime(time.Hour, few); n > 0 || !errors.Is(err, errNotRepeated) || x.size != 10 {
		t.Fatalf("with few registrations %d routes changed, %d are left: %v", n, x.size, err)
	}
	// The emitters return. Routes that are not repeated have their whole lifetime again.
	if n, err := x.passTime(110*time.Second, most); n > 0 || err != nil {
		t.Fatalf("after the return %d routes changed: %v", n, err)
	}
	if n, err := x.passTime(30*time.Second, most); n != 4 || err != nil || x.size != 6 {
		t.Errorf("%d routes changed, %d are left, %v; want 4 and 6", n, x.size, err)
	}
}

// TestEmittersFailBetweenRoutes: the emitters fail after they have repeated a part of the routes.
// With a short lifetime the others expire before most registrations are overdue, and stay.
func TestEmittersFailBetweenRoutes(t *testing.T) {
	x := newTestTable(t)
	x.staleThreshold = 2 * x.registerInterval
	x.mustRegister(web, instanceAt("10.0.0.1", 1))
	x.now = x.now.Add(x.registerInterval / 2)
	x.mustRegister(api, instanceAt("10.0.0.2", 1))
	if n, err := x.passTime(time.Hour, nil); n > 0 || x.size != 2 || !errors.Is(err, errNotRepeated) {
		t.Errorf("%d routes changed, %d are left: %v", n, x.size, err)
	}
}

// TestUnregisteredWhileSuspended removes a route at once although nothing expires.
func TestUnregisteredWhileSuspended(t *testing.T) {
	x := newTestTable(t)
	x.mustRegister(web, instanceAt("10.0.0.1", 1))
	if _, err := x.passTime(time.Hour, nil); !errors.Is(err, errNotRepeated) {
		t.Fatal(err)
	}
	if !x.unregister(web, instanceAt("10.0.0.1", 1), x.now) || x.size != 0 {
		t.Errorf("left: %v", x.routes)
	}
	if _, err := x.prune(x.now); err != nil {
		t.Errorf("an empty table: %v", err)
	}
}

func TestInterruptionExtendsRegistrations(t *testing.T) {
	x := newTestTable(t)
	x.mustRegister(web, instanceAt("10.0.0.1", 1))
	x.now = x.now.Add(time.Hour) // without a connection nothing is pruned
	x.extend(x.now)
	if list, err := x.prune(x.now.Add(30 * time.Second)); len(list) > 0 || err != nil {
		t.Errorf("after the interruption %v changed: %v", list, err)
	}
}

// TestOlderMessagesAreIgnored: a message about an address that another instance has taken over
// since is ignored.
func TestOlderMessagesAreIgnored(t *testing.T) {
	x := newTestTable(t)
	at := func(id string, second int64) registration {
		r := instanceAt("10.0.0.1", 1)
		r.id = id
		if second > 0 {
			r.updatedAt = time.Unix(second, 0)
		}
		return r
	}
	x.mustRegister(web, at("new", 20))
	if x.mustRegister(web, at("old", 10)) || x.unregister(web, at("old", 10), x.now) {
		t.Error("an older message was applied")
	}
	if !x.mustRegister(web, at("newer", 30)) || !x.unregister(web, at("", 0), x.now) {
		t.Error("a newer message, or one without a time, had no effect")
	}
}

func TestTableIsLimited(t *testing.T) {
	x := newTestTable(t)
	for i := range maxRouteRegistrations {
		x.mustRegister(web, instanceAt("10.0.0.1", uint16(i+1)))
	}
	if changed, err := x.register(web, instanceAt("10.0.0.2", 1), x.now); changed || err == nil {
		t.Error("one more registration than allowed was accepted")
	}
	if _, err := x.register(web, instanceAt("10.0.0.1", 1), x.now); err != nil {
		t.Errorf("a known registration was not extended: %v", err)
	}
	x.size = maxRegistrations
	if changed, err := x.register(api, instanceAt("10.0.0.2", 1), x.now); changed || err == nil || len(x.routes[api]) > 0 {
		t.Error("a registration was accepted although the table is full")
	}
}
