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

// TestLocalityComesFromTheNode: before Kubernetes 1.35, only Nodes have the labels of the locality,
// which proxies cannot read.
func TestLocalityComesFromTheNode(t *testing.T) {
	m := fixture.New(t, nil, nil)
	p := fixture.Proxy(t, []byte("{locality: own/own/own}"))
	if k := view.KeyFor(m.Snapshot(), p); k.Locality.String() != "own/own/own" {
		t.Errorf("locality %q before its pod is known, want its own", k.Locality)
	}
	node := func(zone string) string {
		return "kind: Node\nmetadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: " + zone + "}}\n"
	}
	pod := "---\nkind: Pod\nmetadata: {name: " + p.Name + ", namespace: " + p.Namespace + "}\nspec: {nodeName: n1}\n" +
		"status: {podIP: " + p.Addresses[0].String() + ", phase: Running}\n"
	for _, zone := range []string{"z1", "z2"} {
		before := m.Snapshot()
		s, d := m.Apply(t, node(zone)+pod)
		if k := view.KeyFor(s, p); k.Locality.String() != "r1/"+zone {
			t.Errorf("locality %q, want r1/%s of the Node", k.Locality, zone)
		}
		if !view.KeyChangeFilter(before, s, d)(p) {
			t.Errorf("the change to %s does not report that the Key has changed", zone)
		}
	}
	s, _ := m.Apply(t, "kind: Node\nmetadata: {name: n1}\n"+pod)
	if k := view.KeyFor(s, p); k.Locality.String() != "own/own/own" {
		t.Errorf("locality %q on a Node without labels, want its own", k.Locality)
	}
}
