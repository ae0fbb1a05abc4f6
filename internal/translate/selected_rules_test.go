package translate

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// selectedRule affects clusters, endpoints, listeners and routes of only one of two otherwise equal
// proxies.
const selectedRule = everyResolution + `
---
kind: Service
metadata: {name: tcp}
spec: {clusterIP: 10.96.0.7, ports: [{name: tcp, port: 9080}]}
---
kind: DestinationRule
metadata: {name: http}
spec:
  host: static
  workloadSelector: {matchLabels: {app: a}}
  trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x}}}
  subsets: [{name: v2, labels: {v: b}}]
---
kind: DestinationRule
metadata: {name: tcp}
spec: {host: tcp, workloadSelector: {matchLabels: {app: a}}, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 7s}}}}
`

// TestSelectedRulesAreForTheSelected: one table generates, as push requests it, the resources of
// two proxies that differ only in whether a workloadSelector selects them. They equal the output of
// separate tables.
func TestSelectedRulesAreForTheSelected(t *testing.T) {
	m := fixture.New(t, []byte(selectedRule), nil)
	shared := NewTable(Options{})
	made := map[string][]*resource.Set{}
	for _, text := range []string{"labels: {app: a}", "labels: {app: b}", "labels: {app: a, v: b}"} {
		p := fixture.Proxy(t, []byte(text))
		own := NewTable(Options{})
		for i := range shared.Generators {
			g, key := &shared.Generators[i], view.KeyFor(m.Snapshot(), p)
			want := whole(t, &own.Generators[i], view.Build(m.Snapshot(), key))
			if g.Scope != nil {
				key = g.Scope(key)
			}
			got := whole(t, g, view.Build(m.Snapshot(), key))
			if diff := resource.Compare(want, got); !diff.Empty() {
				t.Errorf("%s: generator %d (%s) has others than one of its own makes: %s", text, i,
					g.TypeURL, describe(t, diff, want))
			}
			made[g.TypeURL] = append(made[g.TypeURL], got)
		}
	}
	for _, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType} {
		var versions []string
		for i, s := range made[typeURL] {
			if n := len(made[typeURL]) / 3; i < 2*n {
				versions = append(versions, s.Version())
			}
		}
		half := len(versions) / 2
		same := true
		for i := range half {
			same = same && versions[i] == versions[half+i]
		}
		if same {
			t.Errorf("%s is the same for both: the test is not effective", typeURL)
		}
	}
}
