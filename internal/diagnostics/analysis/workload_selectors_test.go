package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const workloads = `
kind: Pod
metadata: {name: web-1, labels: {app: web, version: v1}}
spec: {serviceAccountName: web}
status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}], phase: Running, conditions: [{type: Ready, status: "True"}]}
---
kind: Pod
metadata: {name: gw-1, namespace: istio-system, labels: {istio: gw}}
spec: {serviceAccountName: gw}
status: {podIP: 10.1.0.2, podIPs: [{ip: 10.1.0.2}], phase: Running, conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}], selector: {app: web}}
---
kind: Service
metadata: {name: gw, namespace: istio-system}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80, targetPort: 8080}], selector: {istio: gw}}
---
kind: EndpointSlice
metadata: {name: web, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, name: web-1}}]
---
`

func TestSelectorsOfWorkloads(t *testing.T) {
	for name, tt := range map[string]struct {
		objects string
		want    []string // object: field: reason
	}{
		"objects that select a workload": {`
kind: AuthorizationPolicy
metadata: {name: own}
spec: {selector: {matchLabels: {app: web}}, rules: [{}]}
---
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: istio-system}
spec: {selector: {matchLabels: {app: web}}, rules: [{}]}
---
kind: Telemetry
metadata: {name: all}
spec: {}`, nil},
		"policies without a workload": {`
kind: AuthorizationPolicy
metadata: {name: x}
spec: {selector: {matchLabels: {app: wbe}}, rules: [{}]}
---
kind: RequestAuthentication
metadata: {name: x, namespace: elsewhere}
spec: {selector: {matchLabels: {app: web}}}`,
			[]string{
				"AuthorizationPolicy/default/x: spec.selector: no known workload has the labels app=wbe: the object applies to nothing",
				"RequestAuthentication/elsewhere/x: spec.selector: no known workload has the labels app=web: the object applies to nothing",
			}},
		"other kinds without a workload": {`
kind: PeerAuthentication
metadata: {name: x}
spec: {selector: {matchLabels: {app: wbe}}}
---
kind: Telemetry
metadata: {name: x}
spec: {selector: {matchLabels: {app: wbe}}}
---
kind: Sidecar
metadata: {name: x}
spec: {workloadSelector: {labels: {app: wbe}}}
---
kind: EnvoyFilter
metadata: {name: x}
spec: {workloadSelector: {labels: {app: wbe}}}`,
			[]string{
				"EnvoyFilter/default/x: spec.workloadSelector: no known workload has the labels app=wbe: the object applies to nothing",
				"PeerAuthentication/default/x: spec.selector: no known workload has the labels app=wbe: the object applies to nothing",
				"Sidecar/default/x: spec.workloadSelector: no known workload has the labels app=wbe: the object applies to nothing",
				"Telemetry/default/x: spec.selector: no known workload has the labels app=wbe: the object applies to nothing",
			}},
		"references to services": {`
kind: AuthorizationPolicy
metadata: {name: x}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}], rules: [{}]}
---
kind: AuthorizationPolicy
metadata: {name: w}
spec: {targetRefs: [{group: "", kind: Service, name: web}], rules: [{}]}
---
kind: AuthorizationPolicy
metadata: {name: z}
spec: {targetRef: {group: "", kind: Service, name: web}, rules: [{}]}
---
kind: Telemetry
metadata: {name: x}
spec: {targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web}]}
---
kind: AuthorizationPolicy
metadata: {name: class, namespace: istio-system}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio}], rules: [{}]}
---
kind: EnvoyFilter
metadata: {name: x}
spec: {targetRefs: [{group: "", kind: Service, name: web}], configPatches: [{applyTo: CLUSTER, patch: {operation: REMOVE}}]}`,
			[]string{
				"AuthorizationPolicy/default/w: spec.targetRefs[0]: policies of a Service apply at waypoints only, which do not exist here: the reference has no effect; select workloads with spec.selector",
				"AuthorizationPolicy/default/z: spec.targetRef: policies of a Service apply at waypoints only, which do not exist here: the reference has no effect; select workloads with spec.selector",
				"AuthorizationPolicy/istio-system/class: spec.targetRefs[0]: policies of a GatewayClass apply at waypoints only, which do not exist here: the reference has no effect; name each Gateway",
				"EnvoyFilter/default/x: spec.targetRefs[0]: policies of a Service apply at waypoints only, which do not exist here: the reference has no effect; select workloads with spec.selector",
				"Telemetry/default/x: spec.targetRefs[0]: policies of a ServiceEntry apply at waypoints only, which do not exist here: the reference has no effect; select workloads with spec.selector",
			}},
		"two Sidecars for a workload": {`
kind: Sidecar
metadata: {name: older, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {workloadSelector: {labels: {app: web}}}
---
kind: Sidecar
metadata: {name: x, creationTimestamp: "2021-01-01T00:00:00Z"}
spec: {workloadSelector: {labels: {version: v1}}}`,
			[]string{`Sidecar/default/x: spec.workloadSelector: Sidecar "older" is older and selects some of these workloads too: it applies to them instead`}},
		"a subset without endpoints": {`
kind: DestinationRule
metadata: {name: x}
spec: {host: web, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}, {name: all}]}`,
			[]string{`DestinationRule/default/x: spec.subsets[1].labels: no endpoint of "web" has the labels version=v2: requests that are routed to subset "v2" get 503`}},
		"a port of a Gateway without a Service": {`
kind: Gateway
metadata: {name: x}
spec:
  selector: {istio: gw}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["a.example.com"]}
  - {port: {number: 8080, name: target, protocol: HTTP}, hosts: ["b.example.com"]}
  - {port: {number: 81, name: other, protocol: HTTP}, hosts: ["c.example.com"]}`,
			[]string{`Gateway/default/x: spec.servers[2].port.number: no Service of the selected proxies has port 81: clients cannot reach it, for instance through Service "gw"`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(workloads+tt.objects), nil)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				got = append(got, p.Key.String()+": "+p.Field+": "+p.Reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectorsWithoutWorkloads analyzes a mesh whose proxies are started by hand: without known
// workloads, a selector may select any of them.
func TestSelectorsWithoutWorkloads(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: AuthorizationPolicy
metadata: {name: x}
spec: {selector: {matchLabels: {app: web}}, rules: [{}]}`), nil)
	if got := New(honoured()).Analyze(m.Snapshot()); len(got) > 0 {
		t.Errorf("problems %v", got)
	}
}
