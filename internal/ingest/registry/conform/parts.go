package conform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// testSync checks that Synced is the last event of the start. The Objects must result in a service,
// in endpoints or workloads, and in no Problem. Without objects there must be no services, shards
// and workloads.
func (s suite) testSync(t *testing.T) {
	first, _ := s.Start(t, s.Objects)
	if len(first) == 0 || first[len(first)-1].Op != mesh.Synced {
		t.Fatalf("Synced is not the last that is said at the start: %d events", len(first))
	}
	state := Fold(first)
	if len(state.Services) == 0 {
		t.Fatal("the Objects make no service")
	}
	endpoints := len(state.Workloads)
	for _, shard := range state.Shards {
		endpoints += len(shard.Endpoints)
	}
	if endpoints == 0 {
		t.Fatal("the Objects make neither endpoints nor workloads")
	}
	if len(state.Problems) != 0 {
		t.Fatalf("something is wrong with the Objects: %v", state.Problems)
	}
	if empty := s.start(t).state; len(empty.Services)+len(empty.Shards)+len(empty.Workloads) != 0 {
		t.Fatal("something is said in an empty world")
	}
}

// testUpsert checks that objects one by one and at once have the same result. Each of Changed must
// emit events and have the result of a start with it, and sending the original again must revert
// it.
func (s suite) testUpsert(t *testing.T) {
	one, all := s.start(t), s.start(t)
	for _, o := range s.Objects {
		one.change(o)
	}
	all.change(s.Objects...)
	s.requireState(t, one, s.Objects...)
	s.requireState(t, all, s.Objects...)
	for _, change := range s.Changed {
		w := s.start(t, s.Objects...)
		if said := w.change(change); len(said) == 0 {
			t.Errorf("nothing is said to the change of %+v", entityOf(change))
		}
		s.requireState(t, w, withVersion(s.Objects, change)...)
		w.change(original(t, s.Objects, change))
		s.requireState(t, w, s.Objects...)
	}
}

// testDelete deletes all objects at once, and each of them alone. The result must be that of a
// start with the remaining objects.
func (s suite) testDelete(t *testing.T) {
	w := s.start(t, s.Objects...)
	w.change(deleteEvents(s.Objects)...)
	s.requireState(t, w)
	for i := range s.Objects {
		w := s.start(t, s.Objects...)
		w.change(deleteEvent(s.Objects[i]))
		s.requireState(t, w, append(clone(s.Objects[:i]), s.Objects[i+1:]...)...)
	}
}

// testRename replaces Old by Renamed in one batch, in both orders. The result must be as after a
// start with Renamed and the other Objects. It fails if the fixture has no Renamed, or if Old is
// not one of the Objects.
func (s suite) testRename(t *testing.T) {
	if entityOf(s.Renamed) == (entityID{}) {
		t.Fatal("the fixture has no Renamed")
	}
	var rest mesh.Batch
	for _, o := range s.Objects {
		if entityOf(o) != entityOf(s.Old) {
			rest = append(rest, o)
		}
	}
	if len(rest) != len(s.Objects)-1 {
		t.Fatal("Old is not one of the Objects")
	}
	for _, batch := range []mesh.Batch{{deleteEvent(s.Old), s.Renamed}, {s.Renamed, deleteEvent(s.Old)}} {
		w := s.start(t, s.Objects...)
		w.change(batch...)
		s.requireState(t, w, append(clone(rest), s.Renamed)...)
	}
}

// testFlap deletes and adds each object several times, in separate batches and within one. The
// result must be that of a start with all objects.
func (s suite) testFlap(t *testing.T) {
	for _, o := range s.Objects {
		w := s.start(t, s.Objects...)
		for range 3 {
			w.change(deleteEvent(o))
			w.change(o)
		}
		s.requireState(t, w, s.Objects...)
		w.change(deleteEvent(o), o) // gone and back within one batch
		s.requireState(t, w, s.Objects...)
		w.change(o, deleteEvent(o), o, deleteEvent(o), o)
		s.requireState(t, w, s.Objects...)
	}
}

// testOrder adds the objects in each order. All orders must have the same result. There are at most
// 6 objects, so at most 720 orders.
func (s suite) testOrder(t *testing.T) {
	want := s.start(t, s.Objects...).state
	permutations(clone(s.Objects), func(objects mesh.Batch) {
		w := s.start(t)
		for _, o := range objects {
			w.change(o)
		}
		if diff := cmp.Diff(want, w.state); diff != "" {
			var order []entityID
			for _, o := range objects {
				order = append(order, entityOf(o))
			}
			t.Fatalf("in the order %+v the end is another (-want +got):\n%s", order, diff)
		}
	})
}

// permutations calls f with every order of the list. f must not keep its argument. The list has its
// first order again at the end.
func permutations(list mesh.Batch, f func(mesh.Batch)) {
	var choose func(int)
	choose = func(n int) {
		if n == len(list) {
			f(list)
			return
		}
		for i := n; i < len(list); i++ {
			list[n], list[i] = list[i], list[n]
			choose(n + 1)
			list[n], list[i] = list[i], list[n]
		}
	}
	choose(0)
}

// testHistory upserts and deletes random versions of the objects, of all lists of the fixture but
// Shared, in batches of random size. The result must be that of a start with the final objects.
func (s suite) testHistory(t *testing.T) {
	versions := append(append(append(clone(s.Objects), s.Changed...), s.Same...), s.Broken...)
	versions = append(versions, s.Renamed)
	rapid.Check(t, func(t *rapid.T) {
		w := s.start(t)
		there := map[entityID]mesh.Event{}
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			var batch mesh.Batch
			for range rapid.IntRange(1, 5).Draw(t, "events") {
				e := rapid.SampledFrom(versions).Draw(t, "event")
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					delete(there, entityOf(e))
					batch = append(batch, deleteEvent(e))
					continue
				}
				there[entityOf(e)] = e
				batch = append(batch, e)
			}
			w.change(batch...)
		}
		var end mesh.Batch
		for _, e := range there {
			end = append(end, e)
		}
		s.requireState(t, w, end...)
	})
}

// testRestart checks that each start with the same objects emits the same events in the same order.
func (s suite) testRestart(t *testing.T) {
	first, _ := s.Start(t, s.Objects)
	for range 5 {
		again, _ := s.Start(t, s.Objects)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("after a restart something else is said (-first +again):\n%s", diff)
		}
	}
}

// testNoChange sends each object again, in the versions of Same, and with another resource version.
// Nothing must be emitted.
func (s suite) testNoChange(t *testing.T) {
	w := s.start(t, s.Objects...)
	for _, o := range append(clone(s.Objects), s.Same...) {
		if said := w.change(o); len(said) != 0 {
			t.Errorf("%d events for %+v, of which nothing changed: %+v", len(said), entityOf(o), said[0])
		}
		if o.Config == nil {
			continue
		}
		resynced := *o.Config
		resynced.Hash, resynced.ResourceVersion = 0, "another"
		if said := w.change(mesh.Event{Config: &resynced}); len(said) != 0 {
			t.Errorf("%d events for %+v, whose resource version changed", len(said), entityOf(o))
		}
	}
}

// testDeleteUnknown deletes objects that were never added. Nothing must be emitted.
func (s suite) testDeleteUnknown(t *testing.T) {
	w := s.start(t)
	for _, o := range s.Objects {
		if said := w.change(deleteEvent(o)); len(said) != 0 {
			t.Errorf("%d events for the deletion of %+v, which was never there", len(said), entityOf(o))
		}
	}
	s.requireState(t, w)
}

// testSourceError makes the source report that it cannot read an object. The object's last good
// version must stay in use. Problems of the source itself are not compared.
func (s suite) testSourceError(t *testing.T) {
	w := s.start(t, s.Objects...)
	for _, o := range s.Objects {
		if o.Config == nil {
			continue
		}
		p := &mesh.Problems{
			Scope: "a file",
			List:  []config.Problem{{Key: o.Config.Key, Reason: "cannot be read", Severity: config.Error}},
		}
		w.change(mesh.Event{Source: "file", Problems: p})
	}
	delete(w.state.Problems, "a file")
	s.requireState(t, w, s.Objects...)
}

// testBroken sends each of Broken. A Problem must name the object and field, the rest must be as
// after a start, and the original must restore everything.
func (s suite) testBroken(t *testing.T) {
	for _, b := range s.Broken {
		w := s.start(t, s.Objects...)
		w.change(b)
		named := false
		for _, list := range w.state.Problems {
			for _, p := range list {
				named = named || p.Key == b.Config.Key && p.Field != "" && p.Reason != "" && p.Severity != ""
			}
		}
		if !named {
			t.Errorf("no Problem names the broken part of %+v: %v", entityOf(b), w.state.Problems)
		}
		s.requireState(t, w, withVersion(s.Objects, b)...)
		w.change(original(t, s.Objects, b))
		s.requireState(t, w, s.Objects...)
	}
}

// testShared sends an event about a shared entity before, after and between the objects, and
// repeats it. The result must not depend on the order, and differ from the one without the event.
// If the entity is a config object, testShared then deletes it, which must have the result without
// the event.
func (s suite) testShared(t *testing.T) {
	without := s.start(t, s.Objects...)
	for i, e := range s.Shared {
		want := s.start(t, append(mesh.Batch{e}, s.Objects...)...).state
		if cmp.Equal(want, without.state) {
			t.Errorf("Shared[%d] makes no difference", i)
		}
		for n := range len(s.Objects) + 1 {
			w := s.start(t, s.Objects[:n]...)
			w.change(e)
			w.change(s.Objects[n:]...)
			if diff := cmp.Diff(want, w.state); diff != "" {
				t.Fatalf("Shared[%d] behind %d objects leads elsewhere (-want +got):\n%s", i, n, diff)
			}
			if w.change(e); !cmp.Equal(want, w.state) {
				t.Fatalf("Shared[%d] said again makes a difference", i)
			}
			if e.Config != nil {
				w.change(deleteEvent(e))
				s.requireState(t, w, s.Objects...)
			}
		}
	}
}
