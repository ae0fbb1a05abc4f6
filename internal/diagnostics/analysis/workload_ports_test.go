package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestServicePortsInPolicies analyzes policies for ports of a Service whose connections arrive at other
// ports of the workload, and for ports that the workload may have.
func TestServicePortsInPolicies(t *testing.T) {
	const objects = `
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: same, port: 81}]}
---
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: tcp, port: 82, targetPort: 8082}]}
---
kind: Service
metadata: {name: named}
spec: {clusterIP: 10.96.0.2, selector: {app: named}, ports: [{name: http, port: 80, targetPort: web}, {name: b, port: 81, targetPort: 8081}]}
---
kind: Service
metadata: {name: declared}
spec: {clusterIP: 10.96.0.3, selector: {app: declared}, ports: [{name: http, port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: 8081}]}
---
kind: Pod
metadata: {name: declared-1, labels: {app: declared}}
spec: {serviceAccountName: web, containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}
status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}], phase: Running, conditions: [{type: Ready, status: "True"}]}
---
kind: Sidecar
metadata: {name: declared}
spec:
  workloadSelector: {labels: {app: declared}}
  ingress: [{port: {number: 81, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:8081"}]
---
`
	policy := func(namespace, app, ports string) string {
		return `
kind: AuthorizationPolicy
metadata: {name: x, namespace: ` + namespace + `}
spec:
  selector: {matchLabels: {app: ` + app + `}}
  action: DENY
  rules: [{to: [{operation: {ports: [` + ports + `]}}]}]`
	}
	const leads = `port 80 of Service "web" leads to port 8080 of the workload: policies match the workload's own ports`
	for name, tt := range map[string]struct {
		objects string
		want    []string
	}{
		"a port of the Service": {policy("default", "web", `"8080", "80"`),
			[]string{"AuthorizationPolicy/default/x: spec.rules[0].to[0].operation.ports[1]: " + leads}},
		"mutual TLS of a port of the Service": {`
kind: PeerAuthentication
metadata: {name: x}
spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {8080: {mode: DISABLE}, 80: {mode: DISABLE}}}`,
			[]string{"PeerAuthentication/default/x: spec.portLevelMtls[80]: " + leads}},
		"ports that are the same":                 {policy("default", "web", `"81"`), nil},
		"a port without a Service":                {policy("default", "web", `"9999"`), nil},
		"a headless Service":                      {policy("default", "web", `"82"`), nil},
		"a target port that only the pod knows":   {policy("default", "named", `"81"`), nil},
		"ports that a container, Sidecar declare": {policy("default", "declared", `"80", "81"`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(objects+tt.objects), nil)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				if p.Key.Name == "x" && p.Code == "MP0006" {
					got = append(got, p.Key.String()+": "+p.Field+": "+p.Reason)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
