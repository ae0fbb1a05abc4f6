package listener

import (
	"fmt"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// manyServices makes services with an address and three ports each: HTTP, TCP, and one that is not declared.
func manyServices(n int) []mesh.Event {
	events := make([]mesh.Event, n)
	for i := range n {
		name := fmt.Sprintf("svc-%05d", i)
		s := mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(name + ".default.svc.cluster.local")},
			Provider:   mesh.Kubernetes, Name: name, Resolution: mesh.Static, Created: time.Unix(int64(i), 0),
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+i>>16, i>>8&255, i&255)},
			Ports: []mesh.Port{
				{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 8080},
				{Name: "tcp", Number: 5432, Protocol: mesh.TCP, Target: 5432},
				{Name: "any", Number: 7000, Protocol: mesh.Auto, Target: 7000},
			},
			From: config.Key{Kind: api.Service, Namespace: "default", Name: name},
		}
		events[i] = mesh.Event{Service: s.Sealed()}
	}
	return events
}

// httpRoute is an edit of a VirtualService: each with another timeout.
func httpRoute(tb testing.TB, i int) mesh.Event {
	tb.Helper()
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "default", Name: "edited"}}, &networking.VirtualService{
		Hosts: []string{"svc-00001"},
		Http: []*networking.HTTPRoute{{Name: fmt.Sprint("edit-", i), Route: []*networking.HTTPRouteDestination{{
			Destination: &networking.Destination{Host: "svc-00001"},
		}}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return mesh.Event{Config: c}
}

func viewOf(tb testing.TB, s *snapshot.Snapshot, proxy string) *view.View {
	tb.Helper()
	return view.Build(s, view.KeyFor(s, fixture.Proxy(tb, []byte(proxy))))
}

// BenchmarkAll measures All for one View, not counting its creation: the first time, again for the
// same state of the mesh (as for all equal Views), after an edit that affects no listener, and
// after an edit that affects one.
func BenchmarkAll(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		events := manyServices(n)
		builder := snapshot.NewBuilder(snapshot.Options{})
		s, _ := builder.Apply(events...)
		first := viewOf(b, s, "")
		b.Run(fmt.Sprintf("services=%d/cold", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				NewGenerator().All(first)
			}
		})
		b.Run(fmt.Sprintf("services=%d/same-state", n), func(b *testing.B) {
			g := NewGenerator()
			g.All(first)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				g.All(first)
			}
		})
		b.Run(fmt.Sprintf("services=%d/http-route-edited", n), func(b *testing.B) {
			benchmarkEdits(b, builder, func(i int) mesh.Event { return httpRoute(b, i) })
		})
		b.Run(fmt.Sprintf("services=%d/one-service-edited", n), func(b *testing.B) {
			benchmarkEdits(b, builder, func(i int) mesh.Event {
				s := *events[0].Service
				s.Ports = append(s.Ports[:3:3], mesh.Port{Name: "more", Number: uint32(10_000 + i%1000), Protocol: mesh.TCP})
				return mesh.Event{Service: s.Sealed()}
			})
		})
	}
}

func benchmarkEdits(b *testing.B, builder *snapshot.Builder, edit func(i int) mesh.Event) {
	g := NewGenerator()
	v := viewOf(b, builder.Current(), "")
	held := g.All(v)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		b.StopTimer()
		s, _ := builder.Apply(edit(i))
		next := viewOf(b, s, "")
		b.StartTimer()
		held = g.All(next)
		v = next // what proxies have is held until they have the next
	}
	sink, sinkView = held, v
}

var (
	sink     []*resource.Resource
	sinkView *view.View
)
