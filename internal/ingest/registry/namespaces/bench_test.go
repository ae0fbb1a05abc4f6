package namespaces_test

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// BenchmarkObject is a change of one of 50,000 objects in 500 namespaces.
func BenchmarkObject(b *testing.B) {
	f := namespaces.New(namespaces.Options{})
	for i := range 50000 {
		f.Convert(mesh.Batch{object(api.Pod, fmt.Sprint(i%500), fmt.Sprint(i), "1")})
	}
	versions := [2]mesh.Batch{{object(api.Pod, "7", "7", "2")}, {object(api.Pod, "7", "7", "3")}}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		f.Convert(versions[i%2])
	}
}
