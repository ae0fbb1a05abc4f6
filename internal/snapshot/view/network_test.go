package view_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestNodesAreInKeysWhereTheyMatter: else each node would make a class of its own.
func TestNodesAreInKeysWhereTheyMatter(t *testing.T) {
	m := fixture.New(t, nil, nil)
	p := fixture.Proxy(t, []byte("{node: n1, networkView: [b, ' a', b, '']}"))
	if k := view.KeyFor(m.Snapshot(), p); k.Node != "" || k.NetworkView != "a,b" {
		t.Errorf("node %q and networks %q, want none and a,b", k.Node, k.NetworkView)
	}
	before := m.Snapshot()
	const local = "kind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.1, internalTrafficPolicy: Local, ports: [{name: http, port: 80}]}"
	s, d := m.Apply(t, local)
	if k := view.KeyFor(s, p); k.Node != "n1" {
		t.Errorf("node %q, want n1: a service is reached on the caller's node only", k.Node)
	}
	if !view.KeyChangeFilter(before, s, d)(p) {
		t.Error("the change does not report that the Key has changed")
	}
}
