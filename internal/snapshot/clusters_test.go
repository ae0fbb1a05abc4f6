package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestGatewaysOfOneName: a gateway that has one name in all clusters leads to another network in each, and each counts, although the
// service is one.
func TestGatewaysOfOneName(t *testing.T) {
	key := mesh.ServiceKey{Namespace: "istio-system", Host: "eastwest.istio-system.svc.cluster.local"}
	in := func(cluster, network, address string) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Cluster: mesh.ClusterID(cluster), Resolution: mesh.Static, External: []string{address},
			Labels: map[string]string{"topology.istio.io/network": network}, Ports: []mesh.Port{{Name: "tls", Number: 15443}},
		}.Sealed()}
	}
	far := in("remote", "far", "198.51.100.2")
	gone := far
	gone.Op = mesh.Delete
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "local"})
	near := mesh.NetworkGateway{Network: "near", Cluster: "local", Address: "198.51.100.1", Port: 15443}
	for i, step := range []struct {
		event mesh.Event
		want  []mesh.NetworkGateway
	}{
		{in("local", "near", "198.51.100.1"), []mesh.NetworkGateway{near}},
		{far, []mesh.NetworkGateway{{Network: "far", Cluster: "remote", Address: "198.51.100.2", Port: 15443}, near}},
		{in("remote", "far", "198.51.100.3"), []mesh.NetworkGateway{{Network: "far", Cluster: "remote", Address: "198.51.100.3", Port: 15443}, near}},
		{gone, []mesh.NetworkGateway{near}},
	} {
		s, d := b.Apply(step.event)
		if diff := cmp.Diff(step.want, s.Networks().All()); diff != "" || !d.All {
			t.Errorf("step %d: gateways (-want +got):\n%s\ndelta %+v", i, diff, d)
		}
	}
}

// TestRights: what accounts may do is known as it was last said, and a change names the accounts and nothing else.
func TestRights(t *testing.T) {
	a, other := mesh.Account{Cluster: "c", Namespace: "ns", Name: "a"}, mesh.Account{Cluster: "d", Namespace: "ns", Name: "a"}
	b := snapshot.NewBuilder(snapshot.Options{})
	say := func(op mesh.Op, allowed bool) (*snapshot.Snapshot, snapshot.Delta) {
		return b.Apply(mesh.Event{Op: op, Right: &mesh.Right{Account: a, Allowed: allowed}})
	}
	first, d := say(mesh.Upsert, true)
	if r := first.Right(a); r == nil || !r.Allowed || first.Right(other) != nil || len(d.Rights) != 1 || d.Empty() || d.EndpointsOnly() {
		t.Errorf("%+v, %+v, delta %+v", r, first.Right(other), d)
	}
	if s, d := say(mesh.Upsert, true); s != first || !d.Empty() {
		t.Errorf("what is known already makes %+v", d)
	}
	if s, d := say(mesh.Upsert, false); s.Right(a).Allowed || len(d.Rights) != 1 || !first.Right(a).Allowed {
		t.Errorf("taken back: %+v, delta %+v, in the old snapshot %+v", s.Right(a), d, first.Right(a))
	}
	if s, d := say(mesh.Delete, false); s.Right(a) != nil || len(d.Rights) != 1 {
		t.Errorf("forgotten: %+v, delta %+v", s.Right(a), d)
	}
}
