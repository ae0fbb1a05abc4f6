package route

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// manyBound is a Gateway with one port, and that many VirtualServices bound to it, each for a host
// of its own.
func manyBound(n int) []byte {
	var b strings.Builder
	b.WriteString(
		"kind: Gateway\nmetadata: {name: edge}\nspec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}\n",
	)
	for i := range n {
		b.WriteString("---\n" + boundService(i, "v1"))
	}
	return []byte(b.String())
}

func boundService(i int, subset string) string {
	return fmt.Sprintf(`kind: VirtualService
metadata: {name: web-%[1]d}
spec:
  hosts: [web-%[1]d.example.com]
  gateways: [edge]
  http:
  - {match: [{uri: {prefix: /api}}], route: [{destination: {host: web-%[1]d, subset: %[2]s, port: {number: 80}}}]}
  - {route: [{destination: {host: web-%[1]d, port: {number: 80}}}]}
`, i, subset)
}

// BenchmarkGateway translates 2,000 VirtualServices of one port: all of them for the first time,
// and after an edit of one.
func BenchmarkGateway(b *testing.B) {
	const n = 2000
	m := fixture.New(b, manyBound(n), nil)
	p := fixture.Proxy(b, []byte("type: router"))
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			// A new snapshot with the same content: values derived from the previous one are not
			// cached.
			m.Apply(b, boundService(0, fmt.Sprintf("v%d", b.N)))
			v := m.View(p)
			b.StartTimer()
			if NewGenerator().Named(v, "http.80") == nil {
				b.Fatal("none")
			}
		}
	})
	edits := 1
	b.Run("edit", func(b *testing.B) {
		g := NewGenerator()
		old := m.View(p)
		r := g.Named(old, "http.80")
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			edits++
			s, d := m.Apply(b, boundService(7, fmt.Sprintf("v%d", edits)))
			made := g.Computed()
			b.StartTimer()
			v := view.Build(s, old.Key)
			if len(g.Affected(old, v, d, []string{"http.80"})) != 1 {
				b.Fatal("not affected")
			}
			next := g.Named(v, "http.80")
			b.StopTimer()
			if next.Version == r.Version || g.Computed() != made+1 {
				b.Fatalf("%d virtual hosts were made for one edit", g.Computed()-made)
			}
			old, r = v, next
			b.StartTimer()
		}
		runtime.KeepAlive(r)
	})
}
