package gatewayapi_test

import (
	"cmp"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
)

// grpcMatches has its rules in the reverse of their order of precedence. Each is named like its
// position there.
const grpcMatches = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: g}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
apiVersion: v1
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
kind: GRPCRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: r}
spec:
  parentRefs: [{name: g}]
  rules:
  - {name: "8", backendRefs: [{name: web, port: 80}]}
  - {name: "7", matches: [{method: {method: Bar}}], backendRefs: [{name: web, port: 80}]}
  - {name: "6", matches: [{method: {method: Bar}, headers: [{name: a, value: b}]}], backendRefs: [{name: web, port: 80}]}
  - {name: "5", matches: [{method: {method: VeryLongMethod}}], backendRefs: [{name: web, port: 80}]}
  - {name: "4", matches: [{method: {type: RegularExpression, service: "f.+", method: "B.+"}}], backendRefs: [{name: web, port: 80}]}
  - {name: "3", matches: [{method: {type: RegularExpression, service: "fo.+"}}], backendRefs: [{name: web, port: 80}]}
  - {name: "2", matches: [{method: {service: foo}}], backendRefs: [{name: web, port: 80}]}
  - {name: "1", matches: [{method: {service: longer}}], backendRefs: [{name: web, port: 80}]}
  - {name: "0", matches: [{method: {service: f, method: B}}], backendRefs: [{name: web, port: 80}]}
`

// TestGRPCOrder: the service of a match is more specific than the method.
func TestGRPCOrder(t *testing.T) {
	c, s := gatewayapi.New(gatewayapi.Options{}), newState()
	s.apply(t, c.Convert(inputs(t, []byte(grpcMatches))))
	type rule struct{ name, order string }
	var rules []rule
	for _, o := range s.objects {
		if vs, ok := o.Spec.(*networking.VirtualService); ok {
			for i, r := range vs.GetHttp() {
				rules = append(rules, rule{r.GetName(), o.Extension.HTTP[i].Order})
			}
		}
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.order, b.order) })
	if len(rules) != 9 || !slices.IsSortedFunc(rules, func(a, b rule) int { return cmp.Compare(a.name, b.name) }) {
		t.Errorf("the order of rules is %q", rules)
	}
}
