package nametable_test

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func service(i int, address string) *mesh.Service {
	name := fmt.Sprintf("service-%05d", i)
	return mesh.Service{
		ServiceKey: key(name + ".default.svc.cluster.local"),
		Provider:   mesh.Kubernetes,
		Name:       name,
		Resolution: mesh.Static,
		Addresses:  []string{address},
		Ports:      []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
	}.Sealed()
}

// bigMesh has n services with an address each.
func bigMesh(t testing.TB, n int) *fixture.Mesh {
	t.Helper()
	m := fixture.New(t, nil, nil)
	batch := make(mesh.Batch, n)
	for i := range batch {
		batch[i] = mesh.Event{Service: service(i, fmt.Sprintf("10.96.%d.%d", i/250, i%250))}
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

// BenchmarkFirst is the first table of all.
func BenchmarkFirst(b *testing.B) {
	sizes(b, func(b *testing.B, m *fixture.Mesh) {
		v := m.View(fixture.Proxy(b, nil))
		for b.Loop() {
			nametable.NewGenerator().All(v)
		}
	})
}

// BenchmarkOneEdit measures the table after a change of one service, and the additional cost of a
// further namespace that sees the same services.
func BenchmarkOneEdit(b *testing.B) {
	for _, elsewhere := range []bool{false, true} {
		b.Run(fmt.Sprintf("elsewhere=%v", elsewhere), func(b *testing.B) {
			sizes(b, func(b *testing.B, m *fixture.Mesh) {
				g := nametable.NewGenerator()
				here, there := fixture.Proxy(b, nil), fixture.Proxy(b, []byte("namespace: there"))
				kept := [][]*resource.Resource{g.All(m.View(here)), g.All(m.View(there))}
				n := 0
				for b.Loop() {
					b.StopTimer()
					n++
					m.Send(mesh.Event{Service: service(7, fmt.Sprintf("10.200.%d.%d", n/250, n%250))})
					v, w := m.View(here), m.View(there)
					if elsewhere {
						kept[0] = g.All(v)
						v = w
					}
					b.StartTimer()
					kept[1] = g.All(v)
				}
				b.SetBytes(int64(len(kept[1][0].Body)))
			})
		})
	}
}

// BenchmarkNothingNew is a change that alters no line.
func BenchmarkNothingNew(b *testing.B) {
	sizes(b, func(b *testing.B, m *fixture.Mesh) {
		g := nametable.NewGenerator()
		v := m.View(fixture.Proxy(b, nil))
		kept := g.All(v)
		for b.Loop() {
			if g.All(v)[0] != kept[0] {
				b.Fatal("built again")
			}
		}
	})
}
