package snapshot_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestKeySets: the snapshot has the last reported keys of token issuers, and a change names only
// their sources.
func TestKeySets(t *testing.T) {
	b := snapshot.NewBuilder(snapshot.Options{})
	a, other := mesh.KeySource{URI: "https://a"}, mesh.KeySource{Issuer: "https://a"}
	say := func(op mesh.Op, text, fault string) (*snapshot.Snapshot, snapshot.Delta) {
		return b.Apply(mesh.Event{Op: op, KeySet: &mesh.KeySet{Source: a, Text: text, Fault: fault}})
	}
	first, d := say(mesh.Upsert, "one", "")
	if k := first.KeySet(a); k == nil || k.Text != "one" || first.KeySet(other) != nil || len(d.KeySets) != 1 || d.Empty() || d.EndpointsOnly() || d.ChangesVisibility() {
		t.Errorf("%+v, %+v, delta %+v", k, first.KeySet(other), d)
	}
	if s, d := say(mesh.Upsert, "one", ""); s != first || !d.Empty() {
		t.Errorf("the same again is a change: %+v", d)
	}
	if s, d := say(mesh.Upsert, "one", "away"); s.KeySet(a).Fault != "away" || len(d.KeySets) != 1 || first.KeySet(a).Fault != "" {
		t.Errorf("a fault: %+v, delta %+v, in the old snapshot %+v", s.KeySet(a), d, first.KeySet(a))
	}
	var merged snapshot.Delta
	merged.Merge(d)
	if len(merged.KeySets) != 1 {
		t.Errorf("merged: %+v", merged)
	}
	if s, d := say(mesh.Delete, "", ""); s.KeySet(a) != nil || len(d.KeySets) != 1 {
		t.Errorf("forgotten: %+v, delta %+v", s.KeySet(a), d)
	}
	if _, d := say(mesh.Delete, "", ""); !d.Empty() {
		t.Errorf("forgotten twice: %+v", d)
	}
}
