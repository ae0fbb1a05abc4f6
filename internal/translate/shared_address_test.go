package translate

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestSharedAddress builds the same mesh many times. A pod and WorkloadEntries have one address,
// and a ServiceEntry selects all of them: the same one of them becomes the endpoint each time.
func TestSharedAddress(t *testing.T) {
	const objects = `
kind: ServiceEntry
metadata: {name: vault, namespace: bank}
spec: {hosts: [vault.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {app: vault}}}
---
kind: Pod
metadata: {name: vault-1, namespace: bank, labels: {app: vault, version: v1}}
status: {podIP: 10.0.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
kind: WorkloadEntry
metadata: {name: machine-1, namespace: bank}
spec: {address: 10.0.0.1, labels: {app: vault, version: v2}}
---
kind: WorkloadEntry
metadata: {name: machine-2, namespace: bank}
spec: {address: 10.0.0.1, labels: {app: vault, version: v3}}
`
	proxy := fixture.Proxy(t, []byte("{namespace: bank}"))
	first := resources(NewTable(Options{}), fixture.New(t, []byte(objects), nil).View(proxy))
	for range 50 {
		if diff := changed(
			first,
			resources(NewTable(Options{}), fixture.New(t, []byte(objects), nil).View(proxy)),
		); diff != "" {
			t.Fatalf("the same objects lead to another %s", diff)
		}
	}
}

// TestOthersDoNotChangeInboundServices: a ServiceEntry or WorkloadEntry of another namespace with
// a proxy's address adds no inbound listener or cluster to it, and the proxy keeps the labels that
// the platform assigns.
func TestOthersDoNotChangeInboundServices(t *testing.T) {
	const machine = `
kind: WorkloadEntry
metadata: {name: machine, namespace: bank}
spec: {address: 10.0.0.1, labels: {app: vault}}
---
kind: Service
metadata: {name: vault, namespace: bank}
spec: {clusterIP: 10.96.0.9, selector: {app: vault}, ports: [{name: http, port: 80}]}
---
kind: AuthorizationPolicy
metadata: {name: vault, namespace: bank}
spec: {selector: {matchLabels: {app: vault}}}
---
`
	for name, text := range map[string]string{
		"a ServiceEntry": `
kind: ServiceEntry
metadata: {name: evil, namespace: evil}
spec: {hosts: [evil.example.com], exportTo: ["."], resolution: STATIC, ports: [{number: 80, name: tcp, protocol: TCP}, {number: 9000, name: more, protocol: TCP}], endpoints: [{address: 10.0.0.1}]}`,
		"a WorkloadEntry": `
kind: WorkloadEntry
metadata: {name: evil, namespace: evil}
spec: {address: 10.0.0.1, labels: {app: other}}`,
	} {
		for _, kind := range []string{"sidecar", "router"} {
			proxy := fixture.Proxy(
				t,
				[]byte("{type: "+kind+", name: vm-7, namespace: bank, addresses: [10.0.0.1], identity: true}"),
			)
			build := func(more string) map[string][]byte {
				return resources(NewTable(Options{}), fixture.New(t, []byte(machine+more), []byte(private)).View(proxy))
			}
			if diff := changed(build(""), build(text)); diff != "" {
				t.Errorf("%s of another namespace changes %s of a %s", name, diff, kind)
			}
		}
	}
}
