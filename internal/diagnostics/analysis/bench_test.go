package analysis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// BenchmarkAnalyze analyzes 300 services in 30 namespaces with 5 pods, two subsets, a VirtualService
// and an AuthorizationPolicy each.
func BenchmarkAnalyze(b *testing.B) {
	var text strings.Builder
	for i := range 300 {
		ns := fmt.Sprintf("ns%d", i%30)
		fmt.Fprintf(&text, `
kind: Service
metadata: {name: s%[1]d, namespace: %[2]s}
spec: {clusterIP: 10.96.%[3]d.%[4]d, ports: [{name: http, port: 80}], selector: {app: s%[1]d}}
---
kind: DestinationRule
metadata: {name: s%[1]d, namespace: %[2]s}
spec: {host: s%[1]d, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
kind: VirtualService
metadata: {name: s%[1]d, namespace: %[2]s}
spec: {hosts: [s%[1]d], http: [{route: [{destination: {host: s%[1]d, subset: v1}}]}]}
---
kind: AuthorizationPolicy
metadata: {name: s%[1]d, namespace: %[2]s}
spec: {selector: {matchLabels: {app: s%[1]d}}, rules: [{from: [{source: {principals: ["*"]}}]}]}
---
kind: EndpointSlice
metadata: {name: s%[1]d, namespace: %[2]s, labels: {kubernetes.io/service-name: s%[1]d}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
`, i, ns, i/250, i%250+1)
		for j := range 5 {
			fmt.Fprintf(&text, "- {addresses: [10.%d.%d.%d], targetRef: {kind: Pod, name: s%d-%d}}\n", j+1, i/250, i%250+1, i, j)
		}
		for j := range 5 {
			fmt.Fprintf(&text, `---
kind: Pod
metadata: {name: s%[1]d-%[2]d, namespace: %[3]s, labels: {app: s%[1]d, version: v%[4]d}}
spec: {serviceAccountName: web}
status: {podIP: 10.%[5]d.%[6]d.%[7]d, phase: Running, conditions: [{type: Ready, status: "True"}]}
`, i, j, ns, j%2+1, j+1, i/250, i%250+1)
		}
		text.WriteString("---\n")
	}
	s := fixture.New(b, []byte(text.String()), nil).Snapshot()
	z := New(honoured())
	b.ReportAllocs()
	for b.Loop() {
		z.Analyze(s)
	}
}
