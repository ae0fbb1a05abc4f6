package snapshot_test

import (
	"slices"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

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

// TestGatewaysByName: names of gateways are said to be resolved, and count as the addresses that they stand for. Until one is
// known there is no way into a network that has no other gateway.
func TestGatewaysByName(t *testing.T) {
	elb := mesh.Event{Service: mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: "istio-system", Host: "eastwest.istio-system.svc.cluster.local"}, Provider: mesh.Kubernetes,
		Cluster: "east", Resolution: mesh.Static, External: []string{"elb.example.com"},
		Labels: map[string]string{"topology.istio.io/network": "east"}, Ports: []mesh.Port{{Name: "tls", Number: 15443}},
	}.Sealed()}
	networks := mesh.Event{Settings: &mesh.Settings{Networks: &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"west": {Gateways: []*meshconfig.Network_IstioNetworkGateway{
			{Gw: &meshconfig.Network_IstioNetworkGateway_Address{Address: "west.example.com"}, Port: 443},
			{Gw: &meshconfig.Network_IstioNetworkGateway_Address{Address: "no name"}, Port: 443},
		}},
	}}}}
	resolved := func(op mesh.Op, name string, addresses ...string) mesh.Event {
		return mesh.Event{Op: op, Resolved: &mesh.ResolvedName{Name: name, Addresses: addresses}}
	}
	gateway := func(network mesh.Network, cluster mesh.ClusterID, address string, port uint32) mesh.NetworkGateway {
		return mesh.NetworkGateway{Network: network, Cluster: cluster, Address: address, Port: port}
	}
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "local"})
	for i, step := range []struct {
		event   mesh.Event
		names   []string
		unknown []mesh.Network
		want    []mesh.NetworkGateway
		same    bool // nothing differs
	}{
		{event: elb, names: []string{"elb.example.com"}, unknown: []mesh.Network{"east"}},
		{event: networks, names: []string{"elb.example.com", "west.example.com"}, unknown: []mesh.Network{"east", "west"}},
		{
			event: resolved(mesh.Upsert, "elb.example.com", "192.0.2.1", "192.0.2.2"), names: []string{"elb.example.com", "west.example.com"},
			unknown: []mesh.Network{"west"},
			want:    []mesh.NetworkGateway{gateway("east", "east", "192.0.2.1", 15443), gateway("east", "east", "192.0.2.2", 15443)},
		},
		{
			event: resolved(mesh.Upsert, "other.example.com", "192.0.2.9"), same: true, names: []string{"elb.example.com", "west.example.com"},
			unknown: []mesh.Network{"west"},
			want:    []mesh.NetworkGateway{gateway("east", "east", "192.0.2.1", 15443), gateway("east", "east", "192.0.2.2", 15443)},
		},
		{
			event: resolved(mesh.Upsert, "elb.example.com", "192.0.2.3"), names: []string{"elb.example.com", "west.example.com"},
			unknown: []mesh.Network{"west"}, want: []mesh.NetworkGateway{gateway("east", "east", "192.0.2.3", 15443)},
		},
		{
			event: resolved(mesh.Upsert, "west.example.com", "192.0.2.4"), names: []string{"elb.example.com", "west.example.com"},
			want: []mesh.NetworkGateway{gateway("east", "east", "192.0.2.3", 15443), gateway("west", "", "192.0.2.4", 443)},
		},
		{
			event: resolved(mesh.Delete, "elb.example.com"), names: []string{"elb.example.com", "west.example.com"}, unknown: []mesh.Network{"east"},
			want: []mesh.NetworkGateway{gateway("west", "", "192.0.2.4", 443)},
		},
	} {
		s, d := b.Apply(step.event)
		if diff := cmp.Diff(step.want, s.Networks().All()); diff != "" || d.All == step.same {
			t.Errorf("step %d: gateways (-want +got):\n%s\ndelta %+v", i, diff, d)
		}
		if diff := cmp.Diff(step.names, s.NamesToResolve()); diff != "" {
			t.Errorf("step %d: names (-want +got):\n%s", i, diff)
		}
		for _, network := range []mesh.Network{"east", "west", "north"} {
			if want := slices.Contains(step.unknown, network); s.Networks().Unknown(network) != want {
				t.Errorf("step %d: no way into %s: %v, want %v", i, network, !want, want)
			}
		}
	}
	if s, _ := b.Apply(resolved(mesh.Upsert, "elb.example.com", "192.0.2.5")); !slices.Contains(s.Networks().All(), gateway("east", "east", "192.0.2.5", 15443)) {
		t.Errorf("what is resolved again: %v", s.Networks().All())
	}
}
