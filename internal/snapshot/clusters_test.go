package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestGatewaysOfOneName: if gateways of all clusters have one name, each is a gateway of its
// cluster's network, although they are one service.
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

// TestGatewaysOfObjects: gateways that are declared by objects other than Services are used
// together with those of Services, in each cluster, while their object exists; their names are
// resolved.
func TestGatewaysOfObjects(t *testing.T) {
	from := config.Key{Kind: "Gateway.gateway.networking.k8s.io", Namespace: "istio-system", Name: "eastwest"}
	object := func(op mesh.Op, cluster mesh.ClusterID, addresses ...string) mesh.Event {
		o := &mesh.GatewayObject{Cluster: cluster, From: from}
		for _, a := range addresses {
			o.Gateways = append(o.Gateways, mesh.NetworkGateway{Network: mesh.Network("of-" + cluster), Cluster: cluster, Address: a, Port: 15443})
		}
		return mesh.Event{Op: op, Gateways: o}
	}
	service := mesh.Event{Service: mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: "istio-system", Host: "eastwest.istio-system.svc.cluster.local"}, Provider: mesh.Kubernetes, Cluster: "east",
		Resolution: mesh.Static, External: []string{"198.51.100.1"}, Labels: map[string]string{"topology.istio.io/network": "of-east"},
		Ports: []mesh.Port{{Name: "tls", Number: 15443}},
	}.Sealed()}
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "east"})
	for _, step := range []struct {
		what    string
		event   mesh.Event
		want    string
		changes bool
	}{
		{"one", object(mesh.Upsert, "east", "198.51.100.1"), "of-east/198.51.100.1", true},
		// the service is news, the gateway is not
		{"the same by a Service", service, "of-east/198.51.100.1", true},
		{"the same event again", object(mesh.Upsert, "east", "198.51.100.1"), "of-east/198.51.100.1", false},
		{"of that name in another cluster", object(mesh.Upsert, "west", "198.51.100.2", "elb.example.com"), "of-east/198.51.100.1 of-west/198.51.100.2", true},
		{"a name is resolved", mesh.Event{Resolved: &mesh.ResolvedName{Name: "elb.example.com", Addresses: []string{"198.51.100.3"}}}, "of-east/198.51.100.1 of-west/198.51.100.2 of-west/198.51.100.3", true},
		{"another address", object(mesh.Upsert, "west", "198.51.100.4"), "of-east/198.51.100.1 of-west/198.51.100.4", true},
		{"the object is deleted", object(mesh.Delete, "west"), "of-east/198.51.100.1", true},
		{"the first object is deleted, and the Service stays", object(mesh.Delete, "east"), "of-east/198.51.100.1", false},
	} {
		s, d := b.Apply(step.event)
		var got []string
		for _, g := range s.Networks().All() {
			got = append(got, string(g.Network)+"/"+g.Address)
		}
		if text := strings.Join(got, " "); text != step.want || d.Empty() == step.changes {
			t.Errorf("%s: gateways %q, want %q; delta %+v", step.what, text, step.want, d)
		}
	}
}

// TestRights: the snapshot has the last reported rights of each account, and a change names only
// the accounts.
func TestRights(t *testing.T) {
	a, other := mesh.Account{Cluster: "c", Namespace: "ns", Name: "a"}, mesh.Account{Cluster: "d", Namespace: "ns", Name: "a"}
	b := snapshot.NewBuilder(snapshot.Options{})
	say := func(op mesh.Op, allowed bool) (*snapshot.Snapshot, snapshot.Delta) {
		return b.Apply(mesh.Event{Op: op, SecretAccess: &mesh.SecretAccess{Account: a, Allowed: allowed}})
	}
	first, d := say(mesh.Upsert, true)
	if r := first.SecretAccess(a); r == nil || !r.Allowed || first.SecretAccess(other) != nil || len(d.SecretAccess) != 1 || d.Empty() || d.EndpointsOnly() {
		t.Errorf("%+v, %+v, delta %+v", r, first.SecretAccess(other), d)
	}
	if s, d := say(mesh.Upsert, true); s != first || !d.Empty() {
		t.Errorf("delta of an unchanged right = %+v", d)
	}
	if s, d := say(mesh.Upsert, false); s.SecretAccess(a).Allowed || len(d.SecretAccess) != 1 || !first.SecretAccess(a).Allowed {
		t.Errorf("withdrawn right: %+v, delta %+v, in the old snapshot %+v", s.SecretAccess(a), d, first.SecretAccess(a))
	}
	if s, d := say(mesh.Delete, false); s.SecretAccess(a) != nil || len(d.SecretAccess) != 1 {
		t.Errorf("forgotten: %+v, delta %+v", s.SecretAccess(a), d)
	}
}

// TestGatewaysByName: names of gateways are requested from the resolver and replaced by their
// addresses. Until a name is resolved, a network without another gateway cannot be reached.
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
			if want := slices.Contains(step.unknown, network); s.Networks().IsUnresolved(network) != want {
				t.Errorf("step %d: no way into %s: %v, want %v", i, network, !want, want)
			}
		}
	}
	if s, _ := b.Apply(resolved(mesh.Upsert, "elb.example.com", "192.0.2.5")); !slices.Contains(s.Networks().All(), gateway("east", "east", "192.0.2.5", 15443)) {
		t.Errorf("networks after the name was resolved again: %v", s.Networks().All())
	}
}

// TestSelectionByCluster: a Kubernetes Service of several clusters selects in each of them the
// WorkloadEntries of that cluster, by that cluster's own definition, under the ports of the
// definition that takes precedence. A ServiceEntry selects WorkloadEntries of all clusters.
func TestSelectionByCluster(t *testing.T) {
	key := mesh.ServiceKey{Namespace: "shop", Host: "web.shop.svc.cluster.local"}
	entry := mesh.ServiceKey{Namespace: "shop", Host: "vms.example.com"}
	service := func(cluster, app string, port mesh.Port) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Cluster: mesh.ClusterID(cluster), Resolution: mesh.Static, Ports: []mesh.Port{port},
			Selector: map[string]string{"app": app}, SelectsWorkloadEntries: true,
		}.Sealed()}
	}
	vm := func(cluster, app, address string) mesh.Event {
		return mesh.Event{Workload: mesh.Workload{
			Provider: mesh.External, Cluster: mesh.ClusterID(cluster), Namespace: "shop", Name: "vm-" + app, Addresses: []string{address},
			Labels: map[string]string{"app": app, "vm": "yes"}, Ready: true,
		}.Sealed()}
	}
	without := func(e mesh.Event) mesh.Event {
		e.Op = mesh.Delete
		return e
	}
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "local"})
	here, there := service("local", "web", mesh.Port{Name: "http", Number: 80, Target: 8080}), service("remote", "shop", mesh.Port{Name: "http", Number: 80, Target: 9090})
	b.Apply(mesh.Event{Service: mesh.Service{
		ServiceKey: entry, Provider: mesh.External, Cluster: "local", Resolution: mesh.Static, Ports: []mesh.Port{{Name: "tcp", Number: 7000}},
		Selector: map[string]string{"vm": "yes"}, SelectsWorkloadEntries: true,
	}.Sealed()})
	for _, step := range []struct {
		what  string
		event mesh.Event
		// endpoints of the Service and of the ServiceEntry
		service, entry string
	}{
		{"only one cluster has it", here, "", ""},
		{"a remote one that it would select", vm("remote", "web", "192.0.2.1"), "", "192.0.2.1:7000"},
		{"one of its own", vm("local", "web", "192.0.2.2"), "http=192.0.2.2:8080", "192.0.2.1:7000 192.0.2.2:7000"},
		{"the other cluster has it too", there, "http=192.0.2.2:8080", "192.0.2.1:7000 192.0.2.2:7000"},
		{"one that is selected there", vm("remote", "shop", "192.0.2.3"), "http=192.0.2.2:8080 http=192.0.2.3:9090", "192.0.2.1:7000 192.0.2.2:7000 192.0.2.3:7000"},
		{"the other definition selects others", service("remote", "web", mesh.Port{Name: "http", Number: 80}), "http=192.0.2.1:80 http=192.0.2.2:8080", "192.0.2.1:7000 192.0.2.2:7000 192.0.2.3:7000"},
		{"the definition with precedence is deleted", without(here), "http=192.0.2.1:80", "192.0.2.1:7000 192.0.2.2:7000 192.0.2.3:7000"},
		{"a workload is deleted", without(vm("remote", "web", "192.0.2.1")), "", "192.0.2.2:7000 192.0.2.3:7000"},
	} {
		s, _ := b.Apply(step.event)
		_, _, endpoints, _ := outline(s, key)
		if endpoints != step.service {
			t.Errorf("%s: the Service has %q, want %q", step.what, endpoints, step.service)
		}
		_, _, endpoints, _ = outline(s, entry)
		if endpoints = strings.ReplaceAll(endpoints, "tcp=", ""); endpoints != step.entry {
			t.Errorf("%s: the ServiceEntry has %q, want %q", step.what, endpoints, step.entry)
		}
	}
}
