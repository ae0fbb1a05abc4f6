package conform

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Run runs the suite as subtests of t. It fails if the fixture is incomplete (it needs Start, 1 to
// 6 Objects, and Changed), or if the registry changes its input.
func Run(t *testing.T, f Fixture) {
	if len(f.Objects) == 0 || len(f.Objects) > 6 || len(f.Changed) == 0 || f.Start == nil {
		t.Fatal("the fixture needs Start, 1 to 6 Objects, and Changed")
	}
	s := suite{f}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"sync", s.testSync},
		{"upsert", s.testUpsert},
		{"delete", s.testDelete},
		{"rename", s.testRename},
		{"flap", s.testFlap},
		{"every order ends the same", s.testOrder},
		{"every history ends the same", s.testHistory},
		{"restart says the same", s.testRestart},
		{"no change is no event", s.testNoChange},
		{"deleting what is unknown is harmless", s.testDeleteUnknown},
		{"an error keeps the last good state", s.testSourceError},
		{"a broken part is named and mended", s.testBroken},
		{"shared state may change at any time", s.testShared},
		{"10,000 instances", s.testLarge},
		{"other events pass through", s.testPassThrough},
	} {
		before := inputHashes(f)
		t.Run(part.name, part.run)
		if diff := cmp.Diff(before, inputHashes(f)); diff != "" {
			t.Fatalf("%s: the registry changed its input: %s", part.name, diff)
		}
	}
}

type suite struct{ Fixture }

// world is a registry under test and the state after all its events.
type world struct {
	t     T
	apply Subject
	state *State
}

// start starts a registry with the objects and returns it with the state after its first events. It
// fails the test if there is no Synced among these.
func (s suite) start(t T, objects ...mesh.Event) *world {
	t.Helper()
	first, subject := s.Start(t, objects)
	w := &world{t: t, apply: subject, state: NewState()}
	w.applyEvents(first)
	if !w.state.Synced {
		t.Fatalf("the registry did not sync")
	}
	return w
}

// change changes the registry's input and returns the events that it emits, which it has applied to
// w.state. It fails the test as applyEvents does.
func (w *world) change(changes ...mesh.Event) mesh.Batch {
	w.t.Helper()
	return w.applyEvents(w.apply(changes))
}

// applyEvents applies emitted events to w.state and returns them. It fails the test if a registry
// must not send one of them, or has changed a value that it sent before.
func (w *world) applyEvents(said mesh.Batch) mesh.Batch {
	w.t.Helper()
	if err := w.state.Apply(said); err != nil {
		w.t.Fatalf("the registry's output is inconsistent: %v", err)
	}
	if err := w.state.Check(); err != nil {
		w.t.Fatalf("the registry changes what it said: %v", err)
	}
	return said
}

// requireState fails the test unless the state equals that of a registry that starts with the given
// objects.
func (s suite) requireState(t T, w *world, objects ...mesh.Event) {
	t.Helper()
	if diff := cmp.Diff(s.start(t, objects...).state, w.state); diff != "" {
		t.Fatalf("differs from a registry that found its objects so (-want +got):\n%s", diff)
	}
}

// deleteEvents returns the deletions of all objects, in their order (deleteEvent).
func deleteEvents(objects mesh.Batch) mesh.Batch {
	var batch mesh.Batch
	for _, o := range objects {
		batch = append(batch, deleteEvent(o))
	}
	return batch
}

// withVersion returns a copy of objects in which the object with the key of by is replaced by it.
// Without such an object the copy is equal.
func withVersion(objects mesh.Batch, by mesh.Event) mesh.Batch {
	list := clone(objects)
	for i := range list {
		if entityOf(list[i]) == entityOf(by) {
			list[i] = by
		}
	}
	return list
}

// original returns the one of the objects that version is another version of. It fails the test if
// there is none.
func original(t T, objects mesh.Batch, version mesh.Event) mesh.Event {
	t.Helper()
	for _, o := range objects {
		if entityOf(o) == entityOf(version) {
			return o
		}
	}
	t.Fatalf("%+v is a version of none of the Objects", entityOf(version))
	return mesh.Event{}
}

// inputHashes returns the hashes of the present contents of the fixture's input objects, except
// Shared. Run detects by them that a registry modifies its input. It leaves out events without an
// object, and objects that cannot be encoded.
func inputHashes(f Fixture) map[config.Key][]uint64 {
	hashes := map[config.Key][]uint64{}
	for _, list := range []mesh.Batch{f.Objects, f.Changed, f.Same, f.Broken, {f.Old, f.Renamed}} {
		for _, e := range list {
			if e.Config == nil {
				continue
			}
			again, err := config.New(e.Config.Meta, e.Config.Spec)
			if err != nil {
				continue
			}
			hashes[e.Config.Key] = append(hashes[e.Config.Key], again.Hash)
		}
	}
	return hashes
}
