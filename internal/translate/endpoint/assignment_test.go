package endpoint

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestHealth checks assignments with unhealthy endpoints, which no registry of files can have.
func TestHealth(t *testing.T) {
	const host = mesh.Hostname("a.example.com")
	endpoints := &snapshot.EndpointSet{}
	for address, health := range map[string]mesh.Health{
		"10.0.0.1":         mesh.Healthy,
		"10.0.0.2":         mesh.Unhealthy,
		"10.0.0.3":         mesh.Draining,
		"name.example.com": mesh.Healthy,
	} {
		endpoints.Endpoints = append(
			endpoints.Endpoints,
			&mesh.Endpoint{Address: address, Port: 80, ServicePort: "http", Health: health},
		)
	}
	in := Input{
		Cluster: mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: host},
		Service: &mesh.Service{
			ServiceKey: mesh.ServiceKey{Host: host},
			Resolution: mesh.Static,
			Ports:      []mesh.Port{{Name: "http", Number: 80}},
		},
		Endpoints: endpoints,
	}
	rule := func(minHealth int32) *snapshot.DestinationRule {
		return &snapshot.DestinationRule{Spec: &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{
			OutlierDetection: &networking.OutlierDetection{MinHealthPercent: minHealth},
		}}}
	}
	for _, tc := range []struct {
		name string
		rule *snapshot.DestinationRule
		all  bool   // Features.SendUnhealthy
		near string // the traffic distribution
		want map[string]corev3.HealthStatus
	}{
		{
			"draining ones are left out, and names",
			nil,
			false,
			"",
			map[string]corev3.HealthStatus{
				"10.0.0.1": corev3.HealthStatus_UNKNOWN,
				"10.0.0.2": corev3.HealthStatus_UNHEALTHY,
			},
		},
		{
			"without panic routing",
			rule(0),
			false,
			"",
			map[string]corev3.HealthStatus{
				"10.0.0.1": corev3.HealthStatus_UNKNOWN,
				"10.0.0.2": corev3.HealthStatus_UNHEALTHY,
			},
		},
		{
			"with panic routing only healthy ones",
			rule(10),
			false,
			"",
			map[string]corev3.HealthStatus{"10.0.0.1": corev3.HealthStatus_UNKNOWN},
		},
		{
			"others too where they are always sent",
			rule(10),
			true,
			"",
			map[string]corev3.HealthStatus{
				"10.0.0.1": corev3.HealthStatus_UNKNOWN,
				"10.0.0.2": corev3.HealthStatus_UNHEALTHY,
			},
		},
		{
			"others too where near ones are preferred",
			rule(10),
			false,
			"PreferSameZone",
			map[string]corev3.HealthStatus{
				"10.0.0.1": corev3.HealthStatus_UNKNOWN,
				"10.0.0.2": corev3.HealthStatus_UNHEALTHY,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in.Rule, in.Service.TrafficDistribution = tc.rule, tc.near
			in.Settings = &snapshot.Settings{
				Mesh:     new(meshconfig.MeshConfig),
				Features: snapshot.Features{SendUnhealthy: tc.all},
			}
			got := map[string]corev3.HealthStatus{}
			for _, l := range Assignment(in).GetEndpoints() {
				for _, e := range l.GetLbEndpoints() {
					got[e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()] = e.GetHealthStatus()
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	l := mesh.Locality{Region: "r", Zone: "z", SubZone: "s"}
	for pattern, want := range map[string]bool{
		"*": true, "r": true, "r/*": true, "r/z": true, "r/z/*": true, "r/z/s": true, "*/z": true,
		"x": false, "r/x": false, "r/z/x": false, "": false,
	} {
		if got := matchesLocality(pattern, l); got != want {
			t.Errorf("pattern %q: %v, want %v", pattern, got, want)
		}
	}
}

// TestRenamedPort: a Service and its EndpointSlices are two objects, and the slices follow later.
func TestRenamedPort(t *testing.T) {
	endpoint := func(name string, port uint32) *mesh.Endpoint {
		return &mesh.Endpoint{Address: "10.0.0.1", Port: port, ServicePort: name}
	}
	for _, tc := range []struct {
		name      string
		provider  mesh.Provider
		ports     []mesh.Port
		endpoints []*mesh.Endpoint
		want      []string // by port
	}{
		{
			"all is in order",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "a", Number: 1, Target: 11}},
			[]*mesh.Endpoint{endpoint("a", 11), endpoint("b", 11)},
			[]string{"a"},
		},
		{
			"renamed",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "new", Number: 1, Target: 11}},
			[]*mesh.Endpoint{endpoint("old", 11)},
			[]string{"old"},
		},
		{
			"one of two renamed",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "new", Number: 1, Target: 11}, {Name: "b", Number: 2, Target: 12}},
			[]*mesh.Endpoint{endpoint("b", 12), endpoint("old", 11)},
			[]string{"old", "b"},
		},
		{
			"both renamed",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "x", Number: 1, Target: 11}, {Name: "y", Number: 2, Target: 12}},
			[]*mesh.Endpoint{endpoint("a", 11), endpoint("b", 12)},
			[]string{"a", "b"},
		},
		{
			"swapped names are names still",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "b", Number: 1, Target: 11}, {Name: "a", Number: 2, Target: 12}},
			[]*mesh.Endpoint{endpoint("a", 11), endpoint("b", 12)},
			[]string{"b", "a"},
		},
		{
			"another target",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "new", Number: 1, Target: 13}},
			[]*mesh.Endpoint{endpoint("old", 11)},
			[]string{"new"},
		},
		{
			"a named target",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "new", Number: 1, TargetName: "http"}},
			[]*mesh.Endpoint{endpoint("old", 11)},
			[]string{"old"},
		},
		{
			"two named targets",
			mesh.Kubernetes,
			[]mesh.Port{{Name: "x", Number: 1, TargetName: "p"}, {Name: "y", Number: 2, TargetName: "q"}},
			[]*mesh.Endpoint{endpoint("a", 11), endpoint("b", 12)},
			[]string{"x", "y"},
		},
		{
			"a ServiceEntry is one object",
			mesh.External,
			[]mesh.Port{{Name: "new", Number: 1, Target: 11}},
			[]*mesh.Endpoint{endpoint("old", 11)},
			[]string{"new"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{
				Service:   &mesh.Service{Provider: tc.provider, Ports: tc.ports},
				Endpoints: &snapshot.EndpointSet{Endpoints: tc.endpoints},
			}
			var got []string
			for _, p := range tc.ports {
				got = append(got, in.portName(p))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
