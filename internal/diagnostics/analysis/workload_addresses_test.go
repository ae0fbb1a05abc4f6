package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestAddressesOfWorkloadEntries analyzes WorkloadEntries with addresses that only some of the
// services that select them can use.
func TestAddressesOfWorkloadEntries(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}], selector: {app: web}}
---
kind: ServiceEntry
metadata: {name: static}
spec:
  hosts: [static.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  workloadSelector: {labels: {app: web}}
---
kind: ServiceEntry
metadata: {name: dns}
spec:
  hosts: [dns.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: DNS
  workloadSelector: {labels: {app: web}}
---
kind: ServiceEntry
metadata: {name: none}
spec:
  hosts: [none.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: web}}
---
kind: WorkloadEntry
metadata: {name: ip}
spec: {address: 10.1.0.1, labels: {app: web}}
---
kind: WorkloadEntry
metadata: {name: host, labels: {app: web}}
spec: {address: vm.example.com}
---
kind: WorkloadEntry
metadata: {name: socket}
spec: {address: unix:///tmp/web.sock, labels: {app: web}}
---
kind: WorkloadEntry
metadata: {name: other}
spec: {address: other.example.com, labels: {app: other}}
---
kind: WorkloadEntry
metadata: {name: elsewhere, namespace: elsewhere}
spec: {address: vm.example.com, labels: {app: web}}`), nil)
	var got []string
	for _, p := range New(honoured()).Analyze(m.Snapshot()) {
		got = append(got, p.Key.String()+": "+p.Field+": "+p.Reason)
	}
	want := []string{
		`WorkloadEntry/default/host: spec.address: "vm.example.com" is not an IP address or Unix socket, which ServiceEntry "static" requires of its endpoints: the workload gets no requests to "static.example.com"`,
		`WorkloadEntry/default/host: spec.address: "vm.example.com" is not an IP address, which Service "web" requires of its endpoints: the workload gets no requests to "web.default.svc.cluster.local"`,
		`WorkloadEntry/default/socket: spec.address: "unix:///tmp/web.sock" is not an IP address or host name, which ServiceEntry "dns" requires of its endpoints: the workload gets no requests to "dns.example.com"`,
		`WorkloadEntry/default/socket: spec.address: "unix:///tmp/web.sock" is not an IP address, which Service "web" requires of its endpoints: the workload gets no requests to "web.default.svc.cluster.local"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
