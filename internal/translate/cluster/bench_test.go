package cluster

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// bigMesh has n services of one port, every tenth of them with a rule that makes two subsets.
func bigMesh(b *testing.B, n int) *fixture.Mesh {
	b.Helper()
	m := fixture.New(b, nil, nil)
	batch := make(mesh.Batch, 0, n+n/10)
	for i := range n {
		host := mesh.Hostname(fmt.Sprintf("service-%05d.default.svc.cluster.local", i))
		batch = append(batch, mesh.Event{Service: mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "default", Host: host},
			Provider:   mesh.Kubernetes, Name: fmt.Sprintf("service-%05d", i), Resolution: mesh.Static,
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 8080}},
		}.Sealed()})
		if i%10 != 0 {
			continue
		}
		c, err := config.New(config.Meta{
			Key: config.Key{Kind: api.DestinationRule, Namespace: "default", Name: string(host)},
		}, &networking.DestinationRule{
			Host: string(host),
			TrafficPolicy: &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
				Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: 100},
			}},
			Subsets: []*networking.Subset{
				{Name: "v1", Labels: map[string]string{"version": "v1"}},
				{Name: "v2", Labels: map[string]string{"version": "v2"}},
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		batch = append(batch, mesh.Event{Config: c})
	}
	m.Send(batch...)
	return m
}

func sizes(b *testing.B, f func(b *testing.B, m *fixture.Mesh)) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			m := bigMesh(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			f(b, m)
		})
	}
}

// viewOf returns the View of a sidecar in a namespace of its own.
func viewOf(b *testing.B, m *fixture.Mesh, i int) *view.View {
	return m.View(fixture.Proxy(b, fmt.Appendf(nil, "namespace: n%d", i)))
}

// BenchmarkAllFirst is the first proxy of all: everything is translated.
func BenchmarkAllFirst(b *testing.B) {
	sizes(b, func(b *testing.B, m *fixture.Mesh) {
		v := viewOf(b, m, 0)
		for b.Loop() {
			g := NewGenerator()
			in := OutboundInput{Settings: v.Settings, Proxy: ProxyOf(v)}
			for _, svc := range v.Services {
				in.Service, in.Rule = svc, v.DestinationRule(svc.Host)
				in.Port = 80
				g.outbound.Get(in)
				for _, s := range in.destinationRule().GetSubsets() {
					in.Subset = s.Name
					g.outbound.Get(in)
				}
				in.Subset = ""
			}
		}
	})
}

// BenchmarkAllOfAnotherNamespace is the first proxy of another namespace, which sees the same
// services.
func BenchmarkAllOfAnotherNamespace(b *testing.B) {
	sizes(b, func(b *testing.B, m *fixture.Mesh) {
		g := NewGenerator()
		held := g.All(viewOf(b, m, 0))
		for i := 1; b.Loop(); i++ {
			b.StopTimer()
			v := viewOf(b, m, i)
			b.StartTimer()
			g.All(v)
		}
		hold(held)
	})
}

// BenchmarkAllAgain is a View that is asked again after a change of endpoints only.
func BenchmarkAllAgain(b *testing.B) {
	sizes(b, func(b *testing.B, m *fixture.Mesh) {
		g := NewGenerator()
		v := viewOf(b, m, 0)
		held := g.All(v)
		for b.Loop() {
			g.All(v)
		}
		hold(held)
	})
}

func BenchmarkOutbound(b *testing.B) {
	v := viewOf(b, bigMesh(b, 1), 0)
	svc := v.Services[0]
	in := OutboundInput{
		Service:  svc,
		Port:     80,
		Subset:   "v1",
		Rule:     v.DestinationRule(svc.Host),
		Settings: v.Settings,
		Proxy:    ProxyOf(v),
	}
	b.ReportAllocs()
	for b.Loop() {
		encodeOutbound(in)
	}
}

// hold keeps generated resources reachable until it is called, so that the memo retains them.
func hold(list []*resource.Resource) {
	if len(list) == 0 {
		panic("nothing was made")
	}
}
