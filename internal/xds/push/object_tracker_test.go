package push_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// collecting delays each push until the clock of the bubble advances, so that a test can look at a
// change before it is pushed.
var collecting = push.Options{Debounce: push.Debounce{After: 100 * time.Millisecond}}

// trackEdited returns an ObjectTracker for the state of the edited VirtualService in the newest
// snapshot.
func (f *fixture) trackEdited() *push.ObjectTracker {
	return f.p.Reports().TrackObject(edited, f.mesh.Current().Version)
}

// deleteRoutes deletes the VirtualService of EditRoutes.
func (f *fixture) deleteRoutes() {
	f.mesh.Apply(mesh.Event{Op: mesh.Delete, Config: f.mesh.Current().Config(edited)})
}

// hasRoutes reports whether the route of the proxy is generated from the newest state of the edited
// VirtualService.
func (f *fixture) hasRoutes(x *proxy) bool {
	if c := f.mesh.Current().Config(edited); c != nil {
		return strings.Contains(x.route(), fmt.Sprintf("edit-%x", c.Hash))
	}
	return !strings.Contains(x.route(), "edit-")
}

// TestTrackerIsNeverEarly makes random edits of a VirtualService, other changes and deletions while
// proxies read late. After every step the tracker must report that the version has reached all
// proxies if, and only if, every proxy has acknowledged it.
func TestTrackerIsNeverEarly(t *testing.T) {
	for seed := range uint64(longtest.Rounds(20, 200)) {
		inBubble(t, 4, push.Options{}, func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			var proxies []*proxy
			for i := range 5 {
				proxies = append(proxies, f.connect(pushtest.Proxy(i, []string{"default", "other"}[i%2])))
			}
			f.mesh.EditRoutes()
			for step := range 25 {
				switch random.IntN(5) {
				case 0:
					f.deleteIfPresent()
				case 1, 2:
					f.mesh.EditRoutes()
				case 3:
					f.mesh.SetProblem(fmt.Sprint("problem ", step))
				}
				tracker := f.trackEdited()
				for range 4 {
					switch random.IntN(5) {
					case 0:
						f.mesh.SetEndpoints("s1", fmt.Sprint("10.4.0.", random.IntN(200)))
					case 1:
						f.mesh.SetProblem(fmt.Sprint("problem ", random.IntN(9)))
					case 2:
						time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
						synctest.Wait()
					default:
						proxies[random.IntN(len(proxies))].read()
					}
					reached, has := tracker.Progress(), 0
					for _, x := range proxies {
						if f.hasRoutes(x) {
							has++
						}
					}
					if reached.Reached() && has < len(proxies) {
						t.Fatalf("seed %d, step %d: the tracker reports that all proxies have the version, but %d of %d have it: %+v",
							seed, step, has, len(proxies), reached)
					}
				}
				f.settle()
				for _, x := range proxies {
					x.read()
				}
				if x := tracker.Progress(); !x.Reached() {
					t.Fatalf("seed %d, step %d: proxies are pending although all have answered everything: %+v", seed, step, x)
				}
			}
		})
	}
}

// deleteIfPresent deletes the VirtualService of EditRoutes if it exists.
func (f *fixture) deleteIfPresent() {
	if f.mesh.Current().Config(edited) != nil {
		f.deleteRoutes()
	}
}

// TestTrackerOfASnapshotWithoutAPush tracks a version from a snapshot that does not differ for
// proxies, such as one with another Problem: it is reached although nothing is pushed. Beside a
// change that is not pushed yet it is reached together with that.
func TestTrackerOfASnapshotWithoutAPush(t *testing.T) {
	inBubble(t, 3, collecting, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		f.mesh.SetProblem("first")
		if now := f.trackEdited().Progress(); !now.Reached() || now.UpToDate != 1 {
			t.Errorf("a Problem after the push: %+v", now)
		}
		f.mesh.EditRoutes()
		f.mesh.SetProblem("second")
		tracker := f.trackEdited()
		if now := tracker.Progress(); now.Pushed {
			t.Errorf("a Problem before the push of a change: %+v", now)
		}
		f.settle()
		if now := tracker.Progress(); !now.Pushed || now.UpToDate != 0 {
			t.Errorf("after the push, before the proxy has read: %+v", now)
		}
		x.read()
		if now := tracker.Progress(); !now.Reached() {
			t.Errorf("after the proxy has read: %+v", now)
		}
	})
}

// TestTrackerNamesProxiesBehind checks which proxies a tracker lists as behind, and the state of
// their resources.
func TestTrackerNamesProxiesBehind(t *testing.T) {
	inBubble(t, 3, collecting, func(f *fixture) {
		a, b := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.mesh.EditRoutes()
		tracker := f.trackEdited()
		if x := tracker.Progress(); x.Pushed || x.Reached() {
			t.Errorf("before the push: %+v", x)
		}
		f.settle()
		a.read()
		x := tracker.Progress()
		if !x.Pushed || x.Proxies != 2 || x.UpToDate != 1 || len(x.Behind) != 1 || x.Behind[0].Proxy.Name != b.who.Name {
			t.Fatalf("one of two has read: %+v", x)
		}
		if r := x.Behind[0].Resources[0]; r.TypeURL != api.RouteType || r.Name != "80" || r.State == stream.Acknowledged {
			t.Errorf("resource that the other proxy lacks = %+v", r)
		}
		time.Sleep(time.Minute)
		if since, later := x.Behind[0].Since, tracker.Progress().Behind[0].Since; since.IsZero() || since != later || time.Since(since) < time.Minute {
			t.Errorf("behind since %v, and a minute later since %v; now %v", since, later, time.Now())
		}
		b.read()
		if x := tracker.Progress(); !x.Reached() || x.Proxies != 2 || x.UpToDate != 2 {
			t.Errorf("both have read: %+v", x)
		}

		// A later change of another object does not change the result.
		f.mesh.SetEndpoints("s1", "10.4.0.1")
		f.settle()
		if x := tracker.Progress(); !x.Reached() {
			t.Errorf("after another change: %+v", x)
		}
		a.read()
		b.read()

		// A proxy that connects while the version is being distributed must receive it too.
		f.mesh.EditRoutes()
		tracker = f.trackEdited()
		f.settle()
		a.read()
		b.read()
		late := &proxy{f: f, who: pushtest.Proxy(2, "default"), has: map[string]map[string]string{}}
		late.c = f.p.Connect(late.who, stream.Delta, "test")
		late.c.Request(stream.Request{TypeURL: api.RouteType, Subscribe: []string{"80"}})
		f.settle()
		if x := tracker.Progress(); x.Reached() || len(x.Behind) != 1 || x.Behind[0].Proxy.Name != late.who.Name {
			t.Errorf("a new proxy: %+v", x)
		}
		late.read()
		if x := tracker.Progress(); !x.Reached() || x.UpToDate != 3 {
			t.Errorf("the new proxy has read: %+v", x)
		}
		late.c.Close()
		if x := tracker.Progress(); !x.Reached() || x.Proxies != 2 {
			t.Errorf("the new proxy has disconnected: %+v", x)
		}
	})
}

// TestTrackerRemembersProxiesWithoutTheObject tracks an object from which nothing is generated:
// proxies that were up to date once are not behind because of a later change.
func TestTrackerRemembersProxiesWithoutTheObject(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		tracker := f.trackEdited()
		for _, when := range []string{"at first", "after another change", "when the proxy has read that"} {
			if got := tracker.Progress(); !got.Reached() || got.Proxies != 0 {
				t.Errorf("%s: %+v", when, got)
			}
			if when == "at first" {
				f.mesh.SetEndpoints("s1", "10.4.0.1")
				f.settle()
			} else {
				x.read()
			}
		}
	})
}

// TestTrackerShowsRefusals checks that a version that a proxy rejects is reported first as rejected
// and then as quarantined, never as reached.
func TestTrackerShowsRefusals(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		a, b := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		b.refuse("RDS")
		f.mesh.EditRoutes()
		tracker := f.trackEdited()
		f.settle()
		b.read()
		x := tracker.Progress()
		if x.Reached() || len(x.Behind) == 0 || len(x.Quarantined) > 0 {
			t.Fatalf("one proxy has rejected the route: %+v", x)
		}
		i := 0
		if x.Behind[i].Proxy.Name != b.who.Name {
			i = 1
		}
		if r := x.Behind[i].Resources[0]; r.State != stream.Rejected || r.Message != "no 80" {
			t.Errorf("the route has state %v and message %q", r.State, r.Message)
		}
		a.refuse("RDS")
		a.read()
		f.decide()
		a.read()
		b.read()
		if x := tracker.Progress(); x.Reached() || len(x.Quarantined) != 1 || x.Quarantined[0].Message != "no 80" {
			t.Errorf("both have rejected the route: %+v", x)
		}
	})
}
