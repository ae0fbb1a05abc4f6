package analysis

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const services = `
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: DestinationRule
metadata: {name: web}
spec: {host: web, subsets: [{name: v1, labels: {version: v1}}]}
---
kind: ServiceEntry
metadata: {name: wild}
spec: {hosts: ["*.example.com"], ports: [{name: tls, number: 443, protocol: TLS}]}
---
`

func TestAnalyze(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		want   []string // field: reason
	}{
		"all is well": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [web], http: [{route: [{destination: {host: web, subset: v1, port: {number: 80}}}]}]}`, nil},
		"unknown host": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [web], http: [{route: [{destination: {host: wbe}}]}]}`,
			[]string{`spec.http[0].route[0].destination.host: no service has the host "wbe.default.svc.cluster.local": requests that are routed there get 503`}},
		"unknown subset": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [web], http: [{route: [{destination: {host: web, subset: v9}}]}]}`,
			[]string{`spec.http[0].route[0].destination.subset: no DestinationRule defines a subset "v9" of "web.default.svc.cluster.local": requests that are routed there get 503`}},
		"unknown port, in a mirror": {`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [web], http: [{route: [{destination: {host: web}}], mirrors: [{destination: {host: web, port: {number: 81}}}]}]}`,
			[]string{`spec.http[0].mirrors[0].destination.port.number: service "web.default.svc.cluster.local" has no port 81: requests that are routed there get 503`}},
		"tcp and tls": {`
kind: VirtualService
metadata: {name: x}
spec:
  hosts: [web]
  tcp: [{route: [{destination: {host: a.example.org}}]}]
  tls: [{match: [{sniHosts: [a.example.com]}], route: [{destination: {host: a.example.com}}]}]`,
			[]string{`spec.tcp[0].route[0].destination.host: no service has the host "a.example.org": requests that are routed there get 503`}},
		"a rule for nobody": {`
kind: DestinationRule
metadata: {name: x}
spec: {host: nobody}`,
			[]string{`spec.host: no service has the host "nobody.default.svc.cluster.local": the rule applies to nothing`}},
		"a wildcard rule": {`
kind: DestinationRule
metadata: {name: x}
spec: {host: "*.nowhere"}`, nil},
		"a rule beside an older one": {`
kind: DestinationRule
metadata: {name: x}
spec: {host: web.default.svc.cluster.local, subsets: [{name: v2}, {name: v1}], trafficPolicy: {loadBalancer: {simple: RANDOM}}}`,
			[]string{`spec.subsets[1]: DestinationRule "web" is older and has a subset "v1" of this host: clients that see both go by that one`}},
		"the policy of a rule beside an older one": {`
kind: DestinationRule
metadata: {name: older}
spec: {host: "*.example.com", trafficPolicy: {loadBalancer: {simple: RANDOM}}}
---
kind: DestinationRule
metadata: {name: x}
spec: {host: "*.example.com", trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}}`,
			[]string{`spec.trafficPolicy: DestinationRule "older" is older and has one for this host: clients that see both go by that one`}},
		"a rule for some workloads beside one for all": {`
kind: DestinationRule
metadata: {name: x}
spec: {host: web, workloadSelector: {matchLabels: {app: a}}, subsets: [{name: v1}]}`, nil},
		"a second Sidecar for all": {`
kind: Sidecar
metadata: {name: older}
spec: {egress: [{hosts: ["./*"]}]}
---
kind: Sidecar
metadata: {name: selects}
spec: {workloadSelector: {labels: {app: a}}, egress: [{hosts: ["./*"]}]}
---
kind: Sidecar
metadata: {name: x}
spec: {egress: [{hosts: ["*/*"]}]}`,
			[]string{`spec.workloadSelector: is not set, nor is it in Sidecar "older", which is older: this one has no effect`}},
		"an egress proxy that is not there": {`
kind: Sidecar
metadata: {name: x}
spec: {outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: nobody, port: {number: 80}}}}`,
			[]string{`spec.outboundTrafficPolicy.egressProxy.host: no service has the host "nobody.default.svc.cluster.local": connections to unknown destinations fail`}},
		"an egress proxy without its subset": {`
kind: Sidecar
metadata: {name: x}
spec: {outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: web, subset: v9, port: {number: 80}}}}`,
			[]string{`spec.outboundTrafficPolicy.egressProxy.subset: no DestinationRule defines a subset "v9" of "web.default.svc.cluster.local": connections to unknown destinations fail`}},
		"a selector in the root namespace": {`
kind: PeerAuthentication
metadata: {name: x, namespace: istio-system}
spec: {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}}`,
			[]string{`spec.selector: selects nothing in the root namespace, where only a policy for all workloads of the mesh has effect`}},
		"two policies for all workloads": {`
kind: PeerAuthentication
metadata: {name: older, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {}
---
kind: PeerAuthentication
metadata: {name: x, creationTimestamp: "2021-01-01T00:00:00Z"}
spec: {mtls: {mode: STRICT}}`,
			[]string{`spec.selector: has no effect: the older PeerAuthentication/default/older is for the same workloads`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(services+tt.object), nil)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				if p.Key.Name != "x" {
					t.Errorf("about another object: %v", p)
				}
				got = append(got, p.Field+": "+p.Reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// honoured finds fault with nothing.
func honoured() Unhonoured {
	return Unhonoured{
		Object: func(*config.Config) []config.Problem { return nil },
		Mesh:   func(*meshconfig.MeshConfig) []config.Problem { return nil },
	}
}

func TestUnhonouredPartsNameTheirObject(t *testing.T) {
	m := fixture.New(t, []byte(services), nil)
	u := honoured()
	u.Object = func(c *config.Config) []config.Problem {
		if c.Name == "web" {
			return []config.Problem{{Field: "spec.a", Reason: "later"}}
		}
		return nil
	}
	u.Mesh = func(*meshconfig.MeshConfig) []config.Problem { return []config.Problem{{Field: "b", Reason: "later"}} }
	got := New(u).Analyze(m.Snapshot())
	if len(got) != 2 || got[0].Origin != "mesh configuration" || got[1].Key.Name != "web" {
		t.Errorf("problems %v", got)
	}
}
