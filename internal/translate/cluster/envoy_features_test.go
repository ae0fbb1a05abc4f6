package cluster

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestOlderEnvoys: clusters have no field that the proxies' Envoy lacks, which a Problem reports. A
// cluster that uses none of these fields is the same resource for all versions.
func TestOlderEnvoys(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: budget}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: undeclared}
spec: {clusterIP: 10.96.0.11, ports: [{name: some, port: 80}]}
---
kind: Service
metadata: {name: plain}
spec: {clusterIP: 10.96.0.12, ports: [{name: http, port: 80}]}
---
kind: DestinationRule
metadata: {name: budget}
spec: {host: budget, trafficPolicy: {retryBudget: {percent: 33, budgetInterval: 5s}}}
`), nil)
	g := NewGenerator()
	made := func(version string) (map[string]*resource.Resource, string) {
		v := m.View(fixture.Proxy(t, []byte("{identity: true, envoy: "+version+"}")))
		byHost := map[string]*resource.Resource{}
		for _, r := range g.Outbound(v) {
			if _, host, ok := strings.Cut(r.Name, "||"); ok {
				byHost[strings.TrimSuffix(host, ".default.svc.cluster.local")] = r
			}
		}
		var problems []string
		for _, p := range EnvoyProblems(v) {
			problems = append(problems, p.String())
		}
		return byHost, strings.Join(problems, "\n")
	}
	decoded := func(r *resource.Resource) *clusterv3.Cluster { return golden.Decode(t, r).(*clusterv3.Cluster) }
	current, none := made("1.40.0")
	if none != "" {
		t.Errorf("1.40: %s", none)
	}
	for _, tc := range []struct {
		version         string
		budget, matcher bool // whether the version has them
	}{{"1.36.4", false, false}, {"1.37.0", false, true}, {"1.38.3", false, true}, {"1.39.3", true, true}} {
		got, problems := made(tc.version)
		if has := decoded(got["budget"]).GetCircuitBreakers().GetThresholds()[0].GetRetryBudget().GetBudgetInterval() != nil; has != tc.budget {
			t.Errorf("%s: budget interval %t", tc.version, has)
		}
		if has := decoded(got["undeclared"]).GetTransportSocketMatcher() != nil; has != tc.matcher {
			t.Errorf("%s: transport socket matcher %t", tc.version, has)
		}
		if tc.matcher != (len(decoded(got["undeclared"]).GetTransportSocketMatches()) == 2) {
			t.Errorf("%s: %v", tc.version, decoded(got["undeclared"]).GetTransportSocketMatches())
		}
		if got["plain"] != current["plain"] {
			t.Errorf("%s: the cluster that lacks nothing is made again", tc.version)
		}
		if strings.Contains(problems, "spec.trafficPolicy.retryBudget.budgetInterval") == tc.budget ||
			strings.Contains(problems, "undeclared protocol") == tc.matcher {
			t.Errorf("%s: problems %q", tc.version, problems)
		}
	}
}

// TestOlderEnvoysAndEndpointPickers: an Envoy before 1.38 does not report the chosen endpoint to the
// picker of an InferencePool. A Problem on the pool reports that for gateways, and not for sidecars,
// which ask no picker.
func TestOlderEnvoysAndEndpointPickers(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: g}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
metadata: {name: picker}
spec: {clusterIP: 10.96.0.1, ports: [{name: grpc, port: 9002, appProtocol: http2}]}
---
kind: InferencePool
apiVersion: inference.networking.k8s.io/v1
metadata: {name: llama}
spec: {selector: {matchLabels: {app: llama}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: picker, port: {number: 9002}}}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: models}
spec:
  parentRefs: [{name: g}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: llama}]}]
`), nil)
	for _, tc := range []struct {
		proxy string
		want  bool
	}{
		{"{type: router, envoy: 1.37.0}", true},
		{"{type: router, envoy: 1.38.3}", false},
		{"{type: router}", false},
		{"{envoy: 1.37.0}", false},
	} {
		var got []string
		for _, p := range EnvoyProblems(m.View(fixture.Proxy(t, []byte(tc.proxy)))) {
			if p.Key.Kind == api.InferencePool {
				got = append(got, p.String())
			}
		}
		const start = "InferencePool/default/llama: spec.endpointPickerRef: gateways with an Envoy before 1.38 "
		if len(got) == 1 != tc.want || tc.want && !strings.HasPrefix(got[0], start) {
			t.Errorf("%s: %q", tc.proxy, got)
		}
	}
}
