package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// bigMesh writes a namespace of services on one port, and a VirtualService for each of the first
// ones.
func bigMesh(services, virtualServices int) []byte {
	var b strings.Builder
	for i := range services {
		fmt.Fprintf(&b,
			"kind: Service\nmetadata: {name: svc-%d}\nspec: {clusterIP: 10.%d.%d.%d, ports: [{name: http, port: 9080}]}\n---\n",
			i, i>>16, i>>8&255, i&255)
	}
	for i := range virtualServices {
		b.WriteString(canary(i, 90) + "---\n")
	}
	return []byte(b.String())
}

func canary(i, weight int) string {
	name := fmt.Sprintf("svc-%d", i)
	return fmt.Sprintf(`kind: VirtualService
metadata: {name: %s}
spec:
  hosts: [%s]
  http:
  - match: [{uri: {prefix: /api}, headers: {end-user: {exact: jason}}}]
    route: [{destination: {host: %s, subset: v2}}]
  - route: [{destination: {host: %s, subset: v1}, weight: %d}, {destination: {host: %s, subset: v2}, weight: 10}]
    retries: {attempts: 3, perTryTimeout: 2s, retryOn: 5xx}
    timeout: 10s
`, name, name, name, name, weight, name)
}

func BenchmarkRouteConfiguration(b *testing.B) {
	for _, size := range []struct{ services, virtualServices int }{
		{1_000, 0},
		{1_000, 1_000},
		{2_000, 2_000},
		{10_000, 0},
		{10_000, 2_000},
	} {
		w := newWorld(b, bigMesh(size.services, size.virtualServices), nil, nil)
		v := w.view()
		r, _ := parseName("9080")
		name := fmt.Sprintf("%d-services/%d-virtual-services", size.services, size.virtualServices)
		b.Run(name+"/all", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewGenerator().buildConfiguration(v, r)
			}
		})
		g := NewGenerator()
		kept := g.buildConfiguration(v, r)
		b.Run(name+"/nothing-new", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(kept.Body)))
			for b.Loop() {
				g.buildConfiguration(v, r)
			}
		})
		if size.virtualServices == 0 {
			continue
		}
		edits := [][]mesh.Event{parsedEvents(b, canary(7, 90)), parsedEvents(b, canary(7, 91))}
		b.Run(name+"/one-edit", func(b *testing.B) { // from the event to the bytes
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.builder.Apply(edits[i%2]...)
				kept = g.Named(w.view(), "9080")
			}
		})
	}
}

func parsedEvents(b *testing.B, text string) []mesh.Event {
	b.Helper()
	list, err := events([]byte(text))
	if err != nil {
		b.Fatal(err)
	}
	return list
}
