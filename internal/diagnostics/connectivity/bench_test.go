package connectivity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// largeMesh returns the snapshot of 5,000 services in 250 namespaces (without -long 500 in 25), each
// with one workload. Every tenth namespace has a Sidecar, and every service with an even number a
// policy.
func largeMesh(b testing.TB) *snapshot.Snapshot {
	b.Helper()
	var text strings.Builder
	for i := range longtest.Rounds(25, 250) {
		namespace := fmt.Sprintf("ns-%03d", i)
		if i%10 == 0 {
			fmt.Fprintf(&text, "---\nkind: Sidecar\nmetadata: {name: default, namespace: %s}\nspec: {egress: [{hosts: [./*, ns-001/*]}]}\n", namespace)
		}
		for j := range 20 {
			name := fmt.Sprintf("s-%02d", j)
			text.WriteString(workload(namespace, name, fmt.Sprintf("10.1.%d.%d", i, j+1), true))
			if j%2 == 0 {
				fmt.Fprintf(&text, `---
kind: AuthorizationPolicy
metadata: {name: %[1]s, namespace: %[2]s}
spec: {selector: {matchLabels: {app: %[1]s}}, rules: [{from: [{source: {namespaces: [%[2]s, ns-000]}}]}]}
`, name, namespace)
			}
		}
	}
	return newSnapshot(b, text.String(), "")
}

func BenchmarkNew(b *testing.B) {
	s := largeMesh(b)
	for b.Loop() {
		New(s)
	}
}

func BenchmarkPlainTextCalls(b *testing.B) {
	m := New(largeMesh(b))
	for b.Loop() {
		m.PlainTextCalls()
	}
}

func BenchmarkCallers(b *testing.B) {
	m, generators := New(largeMesh(b)), translate.NewTable(translate.Options{}).Generators
	svc := m.Snapshot.Service(mesh.ServiceKey{Namespace: "ns-001", Host: "s-00.ns-001.svc.cluster.local"})
	for b.Loop() {
		if x := m.Callers(Question{Service: svc, Port: 80}, generators); len(x.Callers) != len(m.Workloads) {
			b.Fatal("callers are missing")
		}
	}
}

func BenchmarkTopology(b *testing.B) {
	m := New(largeMesh(b))
	for b.Loop() {
		m.Topology()
	}
}
