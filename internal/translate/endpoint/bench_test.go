package endpoint_test

import (
	"fmt"
	"slices"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func hostOf(i int) mesh.Hostname {
	return mesh.Hostname(fmt.Sprintf("service-%05d.default.svc.cluster.local", i))
}

// bigMesh has n services with endpoints each in three localities.
func bigMesh(b *testing.B, n, endpoints int) (*fixture.Mesh, []string) {
	b.Helper()
	m := fixture.New(b, nil, nil)
	batch := make(mesh.Batch, 0, 2*n)
	names := make([]string, n)
	for i := range n {
		key := mesh.ServiceKey{Namespace: "default", Host: hostOf(i)}
		batch = append(batch, mesh.Event{Service: mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Name: fmt.Sprintf("service-%05d", i), Resolution: mesh.Static,
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 8080}},
		}.Sealed()})
		shard := mesh.Shard{Service: key, Key: mesh.ShardKey{Provider: mesh.Kubernetes}}
		for j := range endpoints {
			shard.Endpoints = append(shard.Endpoints, &mesh.Endpoint{
				Address:     fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j%250),
				Port:        8080 + uint32(j/250),
				ServicePort: "http",
				Namespace:   "default",
				Workload:    fmt.Sprintf("service-%05d-%d", i, j),
				Owner:       fmt.Sprintf("service-%05d", i),
				Cluster:     "Kubernetes",
				Labels:      map[string]string{"app": "a", "version": "v1"},
				Locality:    mesh.Locality{Region: "r", Zone: fmt.Sprintf("z%d", j%3)},
			})
		}
		batch = append(batch, mesh.Event{Shard: shard.Sealed()})
		names[i] = mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: hostOf(i)}.String()
	}
	m.Send(batch...)
	return m, names
}

func sizes(b *testing.B, f func(b *testing.B, v *view.View, names []string)) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			m, names := bigMesh(b, n, 3)
			v := m.View(fixture.Proxy(b, nil))
			b.ReportAllocs()
			b.ResetTimer()
			f(b, v, names)
		})
	}
}

// BenchmarkNamedFirst measures the first proxy that requests every assignment.
func BenchmarkNamedFirst(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		for b.Loop() {
			g := endpoint.NewGenerator()
			for _, name := range names {
				g.Named(v, name)
			}
		}
	})
}

// BenchmarkNamedAgain is every further one.
func BenchmarkNamedAgain(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		g := endpoint.NewGenerator()
		held := make([]*resource.Resource, len(names))
		for i, name := range names {
			held[i] = g.Named(v, name)
		}
		for b.Loop() {
			for i, name := range names {
				if g.Named(v, name) != held[i] {
					b.Fatal("built again")
				}
			}
		}
	})
}

// BenchmarkEvery measures the first proxy of a further namespace or zone.
func BenchmarkEvery(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		g := endpoint.NewGenerator()
		held := g.Every(v)
		for b.Loop() {
			if got := g.Every(v); len(got) != len(names) || got[0] != held[0] {
				b.Fatal("built again")
			}
		}
	})
}

// BenchmarkAffected measures a change of one service's endpoints for a View that watches all.
func BenchmarkAffected(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		g := endpoint.NewGenerator()
		d := snapshot.Delta{Endpoints: map[mesh.ServiceKey]struct{}{{Namespace: "default", Host: hostOf(500)}: {}}}
		names = slices.Sorted(slices.Values(names))
		for b.Loop() {
			if len(g.Affected(v, v, d, names)) != 1 {
				b.Fatal("want one")
			}
		}
	})
}

// BenchmarkNetworks is one assignment of endpoints half of which are behind two gateways.
func BenchmarkNetworks(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			m, names := bigMesh(b, 1, 1)
			shard := mesh.Shard{
				Service: mesh.ServiceKey{Namespace: "default", Host: hostOf(0)},
				Key:     mesh.ShardKey{Provider: mesh.Kubernetes},
			}
			for i := range n {
				shard.Endpoints = append(shard.Endpoints, &mesh.Endpoint{
					Address: fmt.Sprintf("10.%d.%d.%d", i%2, i/250, i%250), Port: 8080, ServicePort: "http", TLS: true,
					Network: mesh.Network(fmt.Sprint("n", i%2)), Locality: mesh.Locality{
						Region: "r",
						Zone:   fmt.Sprint("z", i%3),
					},
				})
			}
			gateway := &meshconfig.Network_IstioNetworkGateway{
				Gw:   &meshconfig.Network_IstioNetworkGateway_Address{Address: "203.0.113.1"},
				Port: 15443,
			}
			other := &meshconfig.Network_IstioNetworkGateway{
				Gw:   &meshconfig.Network_IstioNetworkGateway_Address{Address: "203.0.113.2"},
				Port: 15443,
			}
			m.Send(mesh.Event{
				Shard: shard.Sealed(),
			}, mesh.Event{Settings: &mesh.Settings{Networks: &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
				"n1": {Gateways: []*meshconfig.Network_IstioNetworkGateway{gateway, other}},
			}}}})
			v := m.View(fixture.Proxy(b, []byte("network: n0")))
			b.ReportAllocs()
			for b.Loop() {
				endpoint.NewGenerator().Named(v, names[0])
			}
		})
	}
}

// BenchmarkAssignment is one assignment, from few to many endpoints.
func BenchmarkAssignment(b *testing.B) {
	for _, n := range []int{3, 100, 1000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			m, names := bigMesh(b, 1, n)
			v := m.View(fixture.Proxy(b, nil))
			b.ReportAllocs()
			for b.Loop() {
				endpoint.NewGenerator().Named(v, names[0])
			}
		})
	}
}
