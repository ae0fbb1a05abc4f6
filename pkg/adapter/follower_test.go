package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a platform whose calls of Watch run the functions that a test sends.
type fake struct {
	steps chan func(adapter.Sink) error
	sinks chan adapter.Sink
}

func (f *fake) Watch(ctx context.Context, sink adapter.Sink) error {
	select {
	case f.sinks <- sink:
	default:
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case step := <-f.steps:
			if err := step(sink); err != nil {
				return err
			}
		}
	}
}

// follow is a Follower with what it emitted so far.
type follow struct {
	*fake
	*adapter.Follower
	services map[adapter.ServiceKey]adapter.Service
	problems map[adapter.ServiceKey]string
	// mu orders reads of a test before the changes that a timer causes.
	mu      sync.Mutex
	changes int
	synced  bool
}

// startFollow starts a Follower. It must be called within a synctest bubble.
func startFollow(t *testing.T, o adapter.FollowOptions) *follow {
	t.Helper()
	f := &follow{
		fake:     &fake{steps: make(chan func(adapter.Sink) error), sinks: make(chan adapter.Sink, 1)},
		services: map[adapter.ServiceKey]adapter.Service{}, problems: map[adapter.ServiceKey]string{},
	}
	f.Follower = adapter.NewFollower(f.fake, o, func(c adapter.Change) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes++
		if !f.synced && len(c.Set)+len(c.Deleted) > 0 && !c.Synced {
			t.Error("services are emitted before Synced")
		}
		f.synced = f.synced || c.Synced
		for _, s := range c.Set {
			f.services[s.ServiceKey] = s
		}
		for _, k := range c.Deleted {
			delete(f.services, k)
		}
		for k, err := range c.Problems {
			delete(f.problems, k)
			if err != nil {
				f.problems[k] = err.Error()
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return f
}

// do runs a step within Watch and waits until it is processed.
func (f *follow) do(step func(adapter.Sink)) {
	f.steps <- func(s adapter.Sink) error { step(s); return nil }
	synctest.Wait()
}

// reconnect ends the running Watch with an error and waits for the next one.
func (f *follow) reconnect() {
	f.fail()
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (f *follow) fail() {
	f.steps <- func(adapter.Sink) error { return errors.New("connection reset") }
	synctest.Wait()
}

func key(name string) adapter.ServiceKey {
	return adapter.ServiceKey{Namespace: adapter.DefaultNamespace, Name: name}
}

// service returns a service with an instance per ID.
func service(name string, ids ...string) adapter.Service {
	s := adapter.Service{
		ServiceKey: adapter.ServiceKey{Name: name}, Hosts: []string{name + ".example"},
		Ports: []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}},
	}
	for _, id := range ids {
		s.Instances = append(s.Instances, adapter.Instance{ID: id, Address: "10.0.0." + strings.TrimLeft(id, "i")})
	}
	return s
}

// set reports services and Synced.
func set(services ...adapter.Service) func(adapter.Sink) { return setIn("", services...) }

// setIn reports services and SyncedGeneration.
func setIn(generation string, services ...adapter.Service) func(adapter.Sink) {
	return func(sink adapter.Sink) {
		for _, s := range services {
			sink.Set(s)
		}
		sink.SyncedGeneration(generation)
	}
}

// requireState fails the test unless the services have these instances: "a:i1,i2 b:".
func (f *follow) requireState(t *testing.T, want string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, k := range slices.SortedFunc(maps.Keys(f.services), adapter.ServiceKey.Compare) {
		var ids []string
		for _, i := range f.services[k].Instances {
			ids = append(ids, i.ID)
		}
		slices.Sort(ids)
		list = append(list, k.Name+":"+strings.Join(ids, ","))
	}
	if got := strings.Join(list, " "); got != want {
		t.Fatalf("state %q, want %q", got, want)
	}
}

func (f *follow) requireProblem(t *testing.T, k adapter.ServiceKey, want string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.problems[k]; !strings.Contains(got, want) || (got == "") != (want == "") {
		t.Fatalf("problem of %s: %q, want %q", k, got, want)
	}
}

// many returns IDs of n instances.
func many(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("i%d", i+1))
	}
	return ids
}

func TestFollowerAppliesReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(func(s adapter.Sink) { s.Set(service("a", "i1")); s.Set(service("b")) })
		if f.changes > 0 || f.Status().Synced {
			t.Fatal("a change is emitted before Synced")
		}
		f.do(func(s adapter.Sink) { s.Synced() })
		f.requireState(t, "a:i1 b:")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i1", "i2")) })
		f.requireState(t, "a:i1,i2 b:")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i2")); s.Delete(key("b")) })
		f.requireState(t, "a:i2")
		before := f.changes
		f.do(func(s adapter.Sink) { s.Set(service("a", "i2")); s.Delete(key("x")); s.Synced() })
		if f.changes != before {
			t.Error("a report without a difference emits a change")
		}
		f.do(func(s adapter.Sink) { s.Report(key("a"), errors.New("no permission")) })
		f.requireState(t, "a:i2")
		f.requireProblem(t, key("a"), "no permission")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i2")) })
		f.requireProblem(t, key("a"), "")
		f.do(func(s adapter.Sink) { s.Report(adapter.ServiceKey{}, errors.New("quota")) })
		f.requireProblem(t, adapter.ServiceKey{}, "quota")
		if s := f.Status(); !s.Synced || s.Services != 1 || s.Instances != 1 || s.Held != 0 || s.Failures != 0 {
			t.Errorf("status %+v", s)
		}
		held := service("a", "i2")
		held.Instances[0].Held = true // by the platform itself
		before = f.changes
		f.do(func(s adapter.Sink) { s.Set(held) })
		if s := f.Status(); s.Held != 1 || f.changes != before {
			t.Errorf("status %+v, %d changes", s, f.changes-before)
		}
		f.do(func(s adapter.Sink) { s.Set(service("a", "i2")) })
		if s := f.Status(); s.Held != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestFollowerKeepsStateOnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.fail()
		f.requireProblem(t, adapter.ServiceKey{}, "cannot be read: connection reset")
		if s := f.Status(); s.Failures != 1 || s.Error != "connection reset" || s.Unreadable.IsZero() {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute)
		f.do(set(service("a", many(20)...), service("b", "i99")))
		f.requireProblem(t, adapter.ServiceKey{}, "")
		all := f.services
		f.reconnect()
		f.requireProblem(t, adapter.ServiceKey{}, "the last known state stays in use")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i1")); s.Delete(key("b")) })
		if len(f.services) != 2 || len(f.services[key("a")].Instances) != 20 {
			t.Fatalf("before Synced the state is %v", f.services)
		}
		f.do(func(s adapter.Sink) { s.Set(service("a", many(20)...)); s.Set(service("b", "i99")); s.Synced() })
		f.requireProblem(t, adapter.ServiceKey{}, "")
		if !maps.EqualFunc(all, f.services, func(a, b adapter.Service) bool { return a.Equal(&b) }) {
			t.Errorf("state %v", f.services)
		}
	})
}

// TestFollowerTrustsGenerations tests that what is missing after a reconnect is removed if the platform has
// lost nothing, and held otherwise: once held, until it is listed again.
func TestFollowerTrustsGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(setIn("A", service("a", many(20)...), service("b", "i21", "i22"), service("c", "i23")))
		f.reconnect()
		f.do(setIn("A", service("b", "i21")))
		f.requireState(t, "b:i21")
		if s := f.Status(); s.Held != 0 || s.Instances != 1 || s.Services != 1 {
			t.Fatalf("status %+v", s)
		}
		f.reconnect()
		f.do(setIn("B", service("d", "i1")))
		f.requireState(t, "b:i21 d:i1")
		f.requireProblem(t, adapter.ServiceKey{}, "1 instances")
		f.do(func(s adapter.Sink) { s.Set(service("d", "i1", "i2")) })
		f.reconnect()
		f.do(setIn("B", service("d", "i2")))
		f.requireState(t, "b:i21 d:i2") // i21 was never listed in generation B
		f.reconnect()
		f.do(setIn("B", service("b", "i21"), service("d", "i2")))
		f.requireProblem(t, adapter.ServiceKey{}, "")
		f.reconnect()
		f.do(setIn("B"))
		f.requireState(t, "")
	})
}

// TestFollowerHoldsPartialReports tests that an instance is held that was only reported by a call of Watch
// whose generation is not known.
func TestFollowerHoldsPartialReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(setIn("A", service("a", "i1")))
		f.reconnect()
		f.do(func(s adapter.Sink) { s.Set(service("a", "i1", "i2")) }) // of another server, which fails then
		f.reconnect()
		f.do(setIn("A"))
		f.requireState(t, "a:i2")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i2")); s.Set(service("a")) })
		f.requireState(t, "a:")
	})
}

// TestFollowerDecidesUnreadableServicesLater tests that a service that could not be read when the platform was
// synced is treated as the others when it is reported.
func TestFollowerDecidesUnreadableServicesLater(t *testing.T) {
	for generation, want := range map[string]string{"A": "a:i2", "B": "a:i1,i2"} {
		synctest.Test(t, func(t *testing.T) {
			f := startFollow(t, adapter.FollowOptions{})
			f.do(setIn("A", service("a", "i1", "i2")))
			f.reconnect()
			f.do(func(s adapter.Sink) { s.Report(key("a"), errors.New("denied")); s.SyncedGeneration(generation) })
			f.requireState(t, "a:i1,i2")
			f.do(func(s adapter.Sink) { s.Set(service("a", "i2")) })
			f.requireState(t, want)
		})
	}
}

// TestFollowerHoldsSmallShares tests that one of many instances is held, too.
func TestFollowerHoldsSmallShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(set(service("a", many(20)...), service("b", "i99")))
		f.reconnect()
		f.do(set(service("a", many(20)...)))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		f.requireProblem(t, adapter.ServiceKey{}, "1 instances")
		if len(f.services[key("b")].Instances) != 1 {
			t.Errorf("status %+v", f.Status())
		}
	})
}

func TestFollowerHoldsAfterDataLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{HoldTime: 10 * time.Minute})
		f.do(set(service("a", "i1", "i2"), service("b", "i3", "i4")))
		f.reconnect()
		f.do(set()) // the server restarted empty
		f.requireState(t, "a:i1,i2 b:i3,i4")
		f.requireProblem(t, adapter.ServiceKey{}, "4 instances that were known before")
		if s := f.Status(); s.Held != 4 || !s.Synced {
			t.Errorf("status %+v", s)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		f.requireState(t, "a:i1,i2 b:i3,i4")
		f.do(func(s adapter.Sink) { s.Delete(key("a")); s.Set(service("b", "i3")) })
		f.requireState(t, "a:i1,i2 b:i3,i4")
		// An instance that is registered again may be deregistered.
		f.do(func(s adapter.Sink) { s.Set(service("b")) })
		f.requireState(t, "a:i1,i2 b:i4")
		f.requireProblem(t, adapter.ServiceKey{}, "3 instances")
		f.do(func(s adapter.Sink) { s.Set(service("a", "i1", "i2")) })
		f.requireProblem(t, adapter.ServiceKey{}, "1 instances")
		// The rest is removed after the time for which the platform lists more than is held.
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		f.requireState(t, "a:i1,i2 b:")
		f.requireProblem(t, adapter.ServiceKey{}, "")
	})
}

// TestFollowerReplacesMovedInstances tests that an instance with another ID but the same address does
// not stay beside its successor.
func TestFollowerReplacesMovedInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(set(service("a", "i1", "i2")))
		f.reconnect()
		again := service("a", "i1")
		again.Instances[0].ID = "other"
		f.do(set(again))
		f.requireState(t, "a:i2,other")
	})
}

func TestFollowerKeepsUnreadableServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(setIn("A", service("a", "i1"), service("b", "i2"), service("c", "i3")))
		f.reconnect()
		f.do(func(s adapter.Sink) {
			s.Set(service("a", "i1"))
			s.Report(key("b"), errors.New("denied"))
			s.Set(service("c", "i3"))
			s.SyncedGeneration("A")
		})
		f.requireState(t, "a:i1 b:i2 c:i3")
		f.requireProblem(t, key("b"), "denied")
		if s := f.Status(); s.Held != 0 || s.Problems != 1 {
			t.Errorf("status %+v", s)
		}
		f.do(func(s adapter.Sink) { s.Set(service("b", "i4")) })
		f.requireState(t, "a:i1 b:i4 c:i3")
		f.requireProblem(t, key("b"), "")
		f.do(func(s adapter.Sink) { s.Report(key("x"), errors.New("denied")) })
		f.requireProblem(t, key("x"), "denied")
		f.reconnect()
		f.do(set(service("a", "i1"), service("b", "i4"), service("c", "i3")))
		f.requireProblem(t, key("x"), "") // no longer reported
	})
}

func TestFollowerIgnoresEndedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		first := <-f.sinks
		f.do(set(service("a", "i1")))
		f.reconnect()
		first.Delete(key("a"))
		first.Synced()
		f.requireState(t, "a:i1")
		if f.Status().Synced {
			t.Error("a Sink of an ended Watch has an effect")
		}
	})
}

func TestFollowerRecoversPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{})
		f.do(set(service("a", "i1")))
		f.steps <- func(adapter.Sink) error { panic("bug") }
		synctest.Wait()
		f.requireProblem(t, adapter.ServiceKey{}, "panic: bug")
		f.requireState(t, "a:i1")
	})
}

func TestFollowerLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{MaxServices: 2})
		f.do(set(service("a"), service("b"), service("c")))
		f.requireState(t, "a: b:")
		f.requireProblem(t, adapter.ServiceKey{}, "more than 2 services")
	})
}

// TestFollowerPausesLonger tests that pauses grow with failures in a row, and shrink after a session
// that was synced.
func TestFollowerPausesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, adapter.FollowOptions{
			Backoff: time.Second, MaxBackoff: 5 * time.Second, Random: func() float64 { return 1 },
		})
		pause := func() time.Duration {
			<-f.sinks
			f.fail()
			at := time.Now()
			s := <-f.sinks
			f.sinks <- s
			return time.Since(at)
		}
		for i, want := range []float64{1, 2, 4, 5, 5} {
			if got := pause().Seconds(); got != want {
				t.Errorf("pause %d is %vs, want %vs", i, got, want)
			}
		}
		f.do(set())
		if got := pause(); got != time.Second {
			t.Errorf("after Synced the pause is %s", got)
		}
	})
}

// TestFollowerNeverLosesListedInstances makes random reports and errors. Instances that the
// platform lists must be in use, instances that it deregistered within one Watch must not, and the
// numbers of the status must match the state.
func TestFollowerNeverLosesListedInstances(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			f := startFollow(t, adapter.FollowOptions{})
			f.do(set())
			listed := map[string][]string{}
			for range rapid.IntRange(1, 15).Draw(r, "steps") {
				switch rapid.IntRange(0, 3).Draw(r, "step") {
				case 0, 1:
					name := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "name")
					ids := many(rapid.IntRange(0, 4).Draw(r, "instances"))
					listed[name] = ids
					f.do(func(s adapter.Sink) { s.Set(service(name, ids...)) })
				case 2:
					name := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "name")
					delete(listed, name)
					f.do(func(s adapter.Sink) { s.Delete(key(name)) })
				case 3:
					f.reconnect()
					lost := rapid.Bool().Draw(r, "lost")
					if lost {
						listed = map[string][]string{}
					}
					f.do(func(s adapter.Sink) {
						for name, ids := range listed {
							s.Set(service(name, ids...))
						}
						s.Synced()
					})
				}
				total, held := 0, f.Status().Held
				for name, ids := range listed {
					for _, id := range ids {
						if !slices.ContainsFunc(f.services[key(name)].Instances, func(i adapter.Instance) bool { return i.ID == id }) {
							r.Fatalf("%s of %s is listed, but not in use", id, name)
						}
					}
					total += len(ids)
				}
				if s := f.Status(); s.Instances != total+held || s.Services != len(f.services) {
					r.Fatalf("status %+v, but %d services, %d instances listed", s, len(f.services), total)
				}
			}
		})
	})
}
