package debug

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestHealth counts one problem of each kind, among healthy proxies.
func TestHealth(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: ServiceEntry
metadata: {name: empty}
spec: {hosts: [empty.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
---
kind: ServiceEntry
metadata: {name: full}
spec: {hosts: [full.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1}]}
---
kind: VirtualService
metadata: {name: first}
spec: {hosts: [full.example.com, lonely.example.com], http: [{route: [{destination: {host: full.example.com}}]}]}
---
kind: VirtualService
metadata: {name: second}
spec: {hosts: [full.example.com], http: [{route: [{destination: {host: full.example.com}}]}]}
---
kind: VirtualService
metadata: {name: private}
spec: {hosts: [lonely.example.com], exportTo: ["."], http: [{route: [{destination: {host: full.example.com}}]}]}
---
kind: VirtualService
metadata: {name: gateway}
spec: {hosts: [lonely.example.com], gateways: [some], http: [{route: [{destination: {host: full.example.com}}]}]}
---
kind: DestinationRule
metadata: {name: one}
spec: {host: full.example.com, subsets: [{name: v1}, {name: v2}]}
---
kind: DestinationRule
metadata: {name: two}
spec: {host: full.example.com, subsets: [{name: v2}, {name: v3}]}
`), nil)
	want := Health{NoInstances: 1, DuplicateDomains: 1, DuplicateSubsets: 1}
	if got := HealthOf(m.Snapshot()); got != want {
		t.Errorf("health %+v, want %+v", got, want)
	}
}
