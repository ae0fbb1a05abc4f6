package translate

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestConflictsOfWorkloadsPorts: Problems about the ports of workloads are found in the Views of all
// Keys, although Keys that differ only in these ports share all other Problems.
func TestConflictsOfWorkloadsPorts(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: auth}
spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 8000}]}
---
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: Service
metadata: {name: db}
spec: {clusterIP: 10.96.0.2, selector: {app: db}, ports: [{name: tcp, port: 80, targetPort: 8080}]}
---
kind: Service
metadata: {name: own}
spec: {clusterIP: 10.96.0.3, selector: {app: own}, ports: [{name: http, port: 80, targetPort: 15006}]}
---
{kind: Pod, metadata: {name: web-1, labels: {app: web}}, status: {podIP: 10.0.0.1, phase: Running}}
---
{kind: Pod, metadata: {name: db-1, labels: {app: db}}, status: {podIP: 10.0.0.2, phase: Running}}
---
{kind: Pod, metadata: {name: own-1, labels: {app: own}}, status: {podIP: 10.0.0.3, phase: Running}}
---
kind: AuthorizationPolicy
metadata: {name: ask}
spec: {action: CUSTOM, provider: {name: ask}, rules: [{to: [{operation: {paths: [/asked]}}]}]}
`), []byte(`
extensionProviders:
- {name: ask, envoyExtAuthzHttp: {service: auth.default.svc.cluster.local, port: 8000}}
`))
	table := NewTable(Options{})
	keyOf := func(app, address string) view.Key {
		proxy := "{name: " + app + "-1, labels: {app: " + app + "}, addresses: [" + address + "]}"
		return view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte(proxy)))
	}
	web, db, own := keyOf("web", "10.0.0.1"), keyOf("db", "10.0.0.2"), keyOf("own", "10.0.0.3")
	for _, tc := range []struct {
		name string
		keys []view.Key
		want []string // a part of each Problem
	}{
		{"HTTP only", []view.Key{web}, nil},
		{"a TCP port", []view.Key{web, db}, []string{"AuthorizationPolicy/default/ask"}},
		{"the same port twice", []view.Key{db, web, db}, []string{"AuthorizationPolicy/default/ask"}},
		{"a port of the proxy", []view.Key{web, own}, []string{"port 15006 of the workload"}},
	} {
		found := table.ConflictsOf(m.Snapshot(), tc.keys)
		if len(found) != len(tc.want) {
			t.Errorf("%s: %v", tc.name, found)
			continue
		}
		for i, p := range found {
			if !strings.Contains(p.String(), tc.want[i]) {
				t.Errorf("%s: %v", tc.name, p)
			}
		}
	}
}
