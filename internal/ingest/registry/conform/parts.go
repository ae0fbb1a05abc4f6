package conform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func (s suite) sync(t *testing.T) {
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

func (s suite) upsert(t *testing.T) {
	one, all := s.start(t), s.start(t)
	for _, o := range s.Objects {
		one.tell(o)
	}
	all.tell(s.Objects...)
	s.want(t, one, s.Objects...)
	s.want(t, all, s.Objects...)
	for _, change := range s.Changed {
		w := s.start(t, s.Objects...)
		if said := w.tell(change); len(said) == 0 {
			t.Errorf("nothing is said to the change of %+v", thingOf(change))
		}
		s.want(t, w, replaced(s.Objects, change)...)
		w.tell(original(t, s.Objects, change))
		s.want(t, w, s.Objects...)
	}
}

func (s suite) delete(t *testing.T) {
	w := s.start(t, s.Objects...)
	w.tell(deletes(s.Objects)...)
	s.want(t, w)
	for i := range s.Objects {
		w := s.start(t, s.Objects...)
		w.tell(deleted(s.Objects[i]))
		s.want(t, w, append(clone(s.Objects[:i]), s.Objects[i+1:]...)...)
	}
}

func (s suite) rename(t *testing.T) {
	if thingOf(s.Renamed) == (thing{}) {
		t.Fatal("the fixture has no Renamed")
	}
	var rest mesh.Batch
	for _, o := range s.Objects {
		if thingOf(o) != thingOf(s.Old) {
			rest = append(rest, o)
		}
	}
	if len(rest) != len(s.Objects)-1 {
		t.Fatal("Old is not one of the Objects")
	}
	for _, batch := range []mesh.Batch{{deleted(s.Old), s.Renamed}, {s.Renamed, deleted(s.Old)}} {
		w := s.start(t, s.Objects...)
		w.tell(batch...)
		s.want(t, w, append(clone(rest), s.Renamed)...)
	}
}

func (s suite) flap(t *testing.T) {
	for _, o := range s.Objects {
		w := s.start(t, s.Objects...)
		for range 3 {
			w.tell(deleted(o))
			w.tell(o)
		}
		s.want(t, w, s.Objects...)
		w.tell(deleted(o), o) // gone and back within one batch
		s.want(t, w, s.Objects...)
		w.tell(o, deleted(o), o, deleted(o), o)
		s.want(t, w, s.Objects...)
	}
}

func (s suite) order(t *testing.T) {
	want := s.start(t, s.Objects...).state
	permutations(clone(s.Objects), func(objects mesh.Batch) {
		w := s.start(t)
		for _, o := range objects {
			w.tell(o)
		}
		if diff := cmp.Diff(want, w.state); diff != "" {
			var order []thing
			for _, o := range objects {
				order = append(order, thingOf(o))
			}
			t.Fatalf("in the order %+v the end is another (-want +got):\n%s", order, diff)
		}
	})
}

// permutations calls f with every order of the list, which f must not keep.
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

// history lets things come, change and go at random, in batches of any size: only what is there in the end counts.
func (s suite) history(t *testing.T) {
	versions := append(append(append(clone(s.Objects), s.Changed...), s.Same...), s.Broken...)
	versions = append(versions, s.Renamed)
	rapid.Check(t, func(t *rapid.T) {
		w := s.start(t)
		there := map[thing]mesh.Event{}
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			var batch mesh.Batch
			for range rapid.IntRange(1, 5).Draw(t, "events") {
				e := rapid.SampledFrom(versions).Draw(t, "event")
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					delete(there, thingOf(e))
					batch = append(batch, deleted(e))
					continue
				}
				there[thingOf(e)] = e
				batch = append(batch, e)
			}
			w.tell(batch...)
		}
		var end mesh.Batch
		for _, e := range there {
			end = append(end, e)
		}
		s.want(t, w, end...)
	})
}

func (s suite) restart(t *testing.T) {
	first, _ := s.Start(t, s.Objects)
	for range 5 {
		again, _ := s.Start(t, s.Objects)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("after a restart something else is said (-first +again):\n%s", diff)
		}
	}
}

func (s suite) noChange(t *testing.T) {
	w := s.start(t, s.Objects...)
	for _, o := range append(clone(s.Objects), s.Same...) {
		if said := w.tell(o); len(said) != 0 {
			t.Errorf("%d events for %+v, of which nothing changed: %+v", len(said), thingOf(o), said[0])
		}
		if o.Config == nil {
			continue
		}
		resynced := *o.Config
		resynced.Hash, resynced.ResourceVersion = 0, "another"
		if said := w.tell(mesh.Event{Config: &resynced}); len(said) != 0 {
			t.Errorf("%d events for %+v, whose resource version changed", len(said), thingOf(o))
		}
	}
}

func (s suite) deleteUnknown(t *testing.T) {
	w := s.start(t)
	for _, o := range s.Objects {
		if said := w.tell(deleted(o)); len(said) != 0 {
			t.Errorf("%d events for the deletion of %+v, which was never there", len(said), thingOf(o))
		}
	}
	s.want(t, w)
}

// sourceError has the source report that it cannot read an object any more: its last good version stays.
func (s suite) sourceError(t *testing.T) {
	w := s.start(t, s.Objects...)
	for _, o := range s.Objects {
		if o.Config == nil {
			continue
		}
		p := &mesh.Problems{Scope: "a file", List: []config.Problem{{Key: o.Config.Key, Reason: "cannot be read", Severity: config.Error}}}
		w.tell(mesh.Event{Source: "file", Problems: p})
	}
	delete(w.state.Problems, "a file")
	s.want(t, w, s.Objects...)
}

func (s suite) broken(t *testing.T) {
	for _, b := range s.Broken {
		w := s.start(t, s.Objects...)
		w.tell(b)
		named := false
		for _, list := range w.state.Problems {
			for _, p := range list {
				named = named || p.Key == b.Config.Key && p.Field != "" && p.Reason != "" && p.Severity != ""
			}
		}
		if !named {
			t.Errorf("no Problem names the broken part of %+v: %v", thingOf(b), w.state.Problems)
		}
		s.want(t, w, replaced(s.Objects, b)...)
		w.tell(original(t, s.Objects, b))
		s.want(t, w, s.Objects...)
	}
}

// shared has something come that others say and that what is said depends on: before, after and between the objects, and go
// again.
func (s suite) shared(t *testing.T) {
	without := s.start(t, s.Objects...)
	for i, e := range s.Shared {
		want := s.start(t, append(mesh.Batch{e}, s.Objects...)...).state
		if cmp.Equal(want, without.state) {
			t.Errorf("Shared[%d] makes no difference", i)
		}
		for n := range len(s.Objects) + 1 {
			w := s.start(t, s.Objects[:n]...)
			w.tell(e)
			w.tell(s.Objects[n:]...)
			if diff := cmp.Diff(want, w.state); diff != "" {
				t.Fatalf("Shared[%d] behind %d objects leads elsewhere (-want +got):\n%s", i, n, diff)
			}
			if w.tell(e); !cmp.Equal(want, w.state) {
				t.Fatalf("Shared[%d] said again makes a difference", i)
			}
			if e.Config != nil {
				w.tell(deleted(e))
				s.want(t, w, s.Objects...)
			}
		}
	}
}

func (s suite) passThrough(t *testing.T) {
	if !s.PassesThrough {
		t.Skip("the registry has no input that others share")
	}
	others := mesh.Batch{
		{Source: "x", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "default", Name: "a"}}, Spec: &networking.VirtualService{}}},
		{Source: "x", Settings: &mesh.Settings{}},
		{Source: "x", Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Secret, Namespace: "default", Name: "b"}}}},
		{Source: "x", Problems: &mesh.Problems{Scope: "a file", List: []config.Problem{{Reason: "r"}}}},
		{Source: "x", Service: mesh.Service{ServiceKey: mesh.ServiceKey{Host: "another.registry"}}.Sealed()},
		{Source: "x", Op: mesh.Synced},
		{Source: "x", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "c"}}, Spec: &networking.DestinationRule{}}},
	}
	var batch mesh.Batch
	for i := range max(len(others), len(s.Objects)) {
		if i < len(s.Objects) {
			batch = append(batch, s.Objects[i])
		}
		if i < len(others) {
			batch = append(batch, others[i])
		}
	}
	_, subject := s.Start(t, nil)
	said := subject(batch)
	passed := without(said, func(e mesh.Event) bool { return e.Source != "x" })
	if len(passed) != len(others) {
		t.Fatalf("%d of %d events passed through", len(passed), len(others))
	}
	for i := range passed {
		if passed[i] != others[i] {
			t.Errorf("event %d came out as another, or out of order", i)
		}
	}
	s.comesBeforeSynced(t, batch, said)
}

// comesBeforeSynced checks that what follows from the objects before Synced is said before it.
func (s suite) comesBeforeSynced(t *testing.T, batch, said mesh.Batch) {
	until := func(b mesh.Batch) mesh.Batch {
		for i, e := range b {
			if e.Op == mesh.Synced {
				return b[:i]
			}
		}
		return b
	}
	objects := without(until(batch), func(e mesh.Event) bool { return e.Source == "x" })
	got := Fold(without(until(said), func(e mesh.Event) bool { return e.Source == "x" }))
	want := s.start(t, objects...).state
	want.Synced = false
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.String(), "Problems") }, cmp.Ignore())); diff != "" {
		t.Errorf("not all is said before Synced (-want +got):\n%s", diff)
	}
}
