package translate

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// calledService is a service with one endpoint, which is called with mutual TLS.
const calledService = `
kind: ServiceEntry
metadata: {name: called}
spec:
  hosts: [x.example.com]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}, {name: tcp, number: 9080, protocol: TCP}]
  endpoints: [{%s}]
---
kind: DestinationRule
metadata: {name: called}
spec: {host: x.example.com, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}, subsets: [{name: v1, labels: {version: v1}}]}
`

// TestOnlyEDSDiffers checks that a change of endpoints alters no other resources of any proxy if the
// Delta says so, and that a change of their accounts alters clusters, which the Delta must not deny.
func TestOnlyEDSDiffers(t *testing.T) {
	m := fixture.NewWith(t, snapshot.Features{PersistentSessions: true}, []byte(everyResolution+namespacesThatHide),
		[]byte(providersThatComeAndGo+namespacesAreChosen))
	m.Apply(t, fmt.Sprintf(calledService, "address: 10.3.0.1, serviceAccount: one"))
	table := NewTable(Options{})
	for _, c := range []struct {
		endpoint string
		onlyEDS  bool
	}{
		{"address: 10.3.0.2, serviceAccount: one", true},
		{"address: 10.3.0.2, serviceAccount: one, weight: 7, labels: {version: v1}", true},
		{"address: 10.3.0.2, serviceAccount: one, locality: r/b, network: far", true},
		{"address: 10.3.0.2, serviceAccount: two", false},
	} {
		before := m.Snapshot()
		s, d := m.Apply(t, fmt.Sprintf(calledService, c.endpoint))
		if !d.EndpointsOnly() || d.AltersOnlyEDS() != c.onlyEDS {
			t.Fatalf("%s: EndpointsOnly = %t, AltersOnlyEDS = %t, want true, %t",
				c.endpoint, d.EndpointsOnly(), d.AltersOnlyEDS(), c.onlyEDS)
		}
		endpoints, others := 0, 0
		for _, text := range differentProxies {
			key := view.KeyFor(before, fixture.Proxy(t, []byte(text)))
			old, now := view.Build(before, key), view.Build(s, key)
			for i := range table.Generators {
				g := &table.Generators[i]
				diff := resource.Compare(whole(t, g, old), whole(t, g, now))
				switch {
				case diff.Empty():
				case !g.IsTouched(old, s, d):
					t.Errorf("%s: proxy %s: %s differ without a report", c.endpoint, text, g.TypeURL)
				case g.TypeURL == api.EndpointType:
					endpoints++
				default:
					others++
				}
			}
		}
		if endpoints == 0 && c.onlyEDS || others > 0 == c.onlyEDS {
			t.Errorf("%s: endpoints differ in %d generators and proxies, other resources in %d: the test is not effective",
				c.endpoint, endpoints, others)
		}
	}
}
