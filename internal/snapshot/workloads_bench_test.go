package snapshot

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// BenchmarkPodsOfServices applies Kubernetes Services, their EndpointSlices and five pods for each,
// in ten namespaces, as when the control plane starts. The Services may select WorkloadEntries, of
// which there are none.
func BenchmarkPodsOfServices(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n, " services"), func(b *testing.B) {
			var events []mesh.Event
			for i := range n {
				svc := service(fmt.Sprintf("ns-%d", i%10), fmt.Sprintf("s%d", i), 80)
				svc.Selector, svc.SelectsWorkloadEntries = map[string]string{"app": svc.Name}, true
				var addresses []string
				for pod := range 5 {
					addresses = append(addresses, fmt.Sprintf("10.%d.%d.%d", i/250, i%250, pod))
					w := mesh.Workload{
						Provider: mesh.Kubernetes, Namespace: svc.Namespace, Name: fmt.Sprintf("s%d-%d", i, pod),
						Addresses: addresses[pod:], Labels: svc.Selector, Ready: true,
					}
					events = append(events, mesh.Event{Workload: w.Sealed()})
				}
				events = append(events, mesh.Event{Service: svc.Sealed()}, mesh.Event{Shard: shard(svc, "a", addresses...)})
			}
			b.ReportAllocs()
			for b.Loop() {
				NewBuilder(Options{}).Apply(events...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/service")
		})
	}
}
