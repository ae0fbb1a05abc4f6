package grpc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// unserved has every setting that gRPC applications do not support.
const unserved = `
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {clusterIP: 10.96.0.1, selector: {app: echo}, ports: [{name: grpc, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: default}
spec:
  host: echo
  trafficPolicy:
    tls: {mode: SIMPLE}
    loadBalancer: {simple: RANDOM}
    outlierDetection: {consecutive5xxErrors: 3}
    connectionPool: {tcp: {maxConnections: 3}, http: {http2MaxRequests: 5, maxRequestsPerConnection: 7}}
  subsets: [{name: v1, labels: {version: v1}, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: default}
spec:
  hosts: [echo]
  http:
  - match: [{authority: {exact: a}}, {headers: {":authority": {exact: a}, b: {exact: c}}}, {method: {exact: POST}}]
    mirror: {host: echo}
    rewrite: {uri: /}
    headers: {request: {set: {a: b}}}
    retries: {attempts: 3, perTryTimeout: 1s, retryOn: connect-failure}
    timeout: 3s
    fault: {delay: {fixedDelay: 1s, percentage: {value: 1}}}
    route: [{destination: {host: echo, subset: v1}, headers: {response: {remove: [a]}}}]
  - match: [{uri: {prefix: /a}}]
    redirect: {uri: /b}
  - route: [{destination: {host: echo}}]
    retries: {attempts: 3, retryOn: "unavailable,connect-failure"}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: default}
spec: {jwtRules: [{issuer: a, jwks: '{"keys":[]}'}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: lets, namespace: default}
spec:
  rules:
  - from: [{source: {requestPrincipals: ["*"], principals: [a]}}]
    to: [{operation: {paths: ["/{*}"]}}]
    when: [{key: "request.auth.claims[a]", values: [b]}, {key: connection.sni, values: [b]}, {key: "request.headers[Grpc-Timeout]", values: [b]}, {key: "request.headers[ok]", values: [b]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: refuses, namespace: default}
spec: {action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"], remoteIpBlocks: [10.0.0.0/8]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: logs, namespace: default}
spec: {action: AUDIT, rules: [{}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: selects, namespace: default}
spec: {selector: {matchLabels: {app: echo}}, accessLogging: [{disabled: true}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: wide, namespace: default}
spec: {accessLogging: [{disabled: true}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: selects, namespace: default}
spec:
  workloadSelector: {labels: {app: echo}}
  configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {connect_timeout: 3s}}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: elsewhere, namespace: default}
spec: {hosts: [elsewhere.example], http: [{mirror: {host: echo}, route: [{destination: {host: echo}}]}]}
`

// TestProblems: each setting that gRPC applications do not support is reported with its field, and
// nothing else is reported.
func TestProblems(t *testing.T) {
	m := fixture.New(t, []byte(unserved), nil)
	p := fixture.Proxy(t, []byte(application))
	g, v := NewGenerator(Envoy{cluster.NewGenerator(), endpoint.NewGenerator(), route.NewGenerator()}), m.View(p)
	asked := map[string][]string{
		api.RouteType:   {"outbound|80||echo.default.svc.cluster.local"},
		api.ClusterType: {"outbound|80|v1|echo.default.svc.cluster.local"},
		// It serves, too.
		api.ListenerType: {"echo:80", "xds.istio.io/grpc/lds/inbound/[::]:8080"},
	}
	var got []string
	for _, x := range g.Problems(v, p, func(typeURL string) []string { return asked[typeURL] }) {
		got = append(got, fmt.Sprintf("%s/%s %s", x.Key.Kind, x.Key.Name, x.Field))
	}
	want := strings.Split(strings.TrimSpace(`
AuthorizationPolicy/lets spec.rules[0].from[0].source
AuthorizationPolicy/lets spec.rules[0].to[0].operation
AuthorizationPolicy/lets spec.rules[0].when[0].key
AuthorizationPolicy/lets spec.rules[0].when[1].key
AuthorizationPolicy/lets spec.rules[0].when[2].key
AuthorizationPolicy/logs spec.action
AuthorizationPolicy/refuses spec.rules[0].from[0].source
AuthorizationPolicy/refuses spec.rules[0].from[0].source
DestinationRule/echo spec.subsets[0].trafficPolicy.loadBalancer.consistentHash
DestinationRule/echo spec.trafficPolicy.connectionPool.http.maxRequestsPerConnection
DestinationRule/echo spec.trafficPolicy.connectionPool.tcp
DestinationRule/echo spec.trafficPolicy.loadBalancer.simple
DestinationRule/echo spec.trafficPolicy.outlierDetection
DestinationRule/echo spec.trafficPolicy.tls.mode
EnvoyFilter/selects spec.workloadSelector
RequestAuthentication/tokens spec
Telemetry/selects spec.selector
VirtualService/echo spec.http[0].headers
VirtualService/echo spec.http[0].match[0].authority
VirtualService/echo spec.http[0].match[1].headers[:authority]
VirtualService/echo spec.http[0].mirror
VirtualService/echo spec.http[0].retries.perTryTimeout
VirtualService/echo spec.http[0].retries.retryOn
VirtualService/echo spec.http[0].rewrite
VirtualService/echo spec.http[0].route[0].headers
VirtualService/echo spec.http[1].redirect`), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, x := range g.Problems(v, p, func(string) []string { return nil }) {
		if x.Key.Kind != api.Telemetry && x.Key.Kind != api.EnvoyFilter {
			t.Errorf("Problems of calls that are never made or served: %v", x)
		}
	}
	sidecar := fixture.Proxy(t, []byte(strings.Replace(application, ", generator: grpc", "", 1)))
	if list := g.Problems(
		m.View(sidecar),
		sidecar,
		func(typeURL string) []string { return asked[typeURL] },
	); list != nil {
		t.Errorf("Problems of a proxy: %v", list)
	}
}
