package gatewayapi_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestProgrammedWhenAProxyIsReady: a deployed Gateway is programmed only while its Service has a
// ready endpoint. Other changes of EndpointSlices write no status.
func TestProgrammedWhenAProxyIsReady(t *testing.T) {
	const gateway = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
apiVersion: v1
metadata: {name: edge-istio}
spec: {type: LoadBalancer, ports: [{port: 80}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}
`
	slice := func(name, service, endpoints string) string {
		return `
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: ` + name + `, labels: {kubernetes.io/service-name: ` + service + `}}
addressType: IPv4
endpoints: [` + endpoints + `]
`
	}
	const ready, unready = `{addresses: [10.0.0.1], conditions: {ready: true}}`, `{addresses: [10.0.0.2], conditions: {ready: false}}`
	key := config.Key{Kind: api.KubernetesGateway, Namespace: "default", Name: "edge"}
	writes := 0
	c := gatewayapi.New(gatewayapi.Options{Deploys: true, OnStatusesChanged: func(list []config.Key) {
		for _, k := range list {
			if k == key {
				writes++
			}
		}
	}})
	for _, step := range []struct {
		name, objects string
		op            mesh.Op
		want          string // reason of Programmed
		writes        int
	}{
		{"without endpoints", gateway, mesh.Upsert, "NoResources", 1},
		{"a proxy that is not ready", slice("a", "edge-istio", unready), mesh.Upsert, "NoResources", 1},
		{"a ready endpoint of another Service", slice("other", "web", ready), mesh.Upsert, "NoResources", 1},
		{"a ready proxy", slice("a", "edge-istio", unready+", "+ready), mesh.Upsert, "Programmed", 2},
		{"a second slice", slice("b", "edge-istio", ready), mesh.Upsert, "Programmed", 2},
		{"the first slice is deleted", slice("a", "edge-istio", unready+", "+ready), mesh.Delete, "Programmed", 2},
		{"the last proxy is not ready", slice("b", "edge-istio", unready), mesh.Upsert, "NoResources", 3},
		{"it is ready again", slice("b", "edge-istio", ready), mesh.Upsert, "Programmed", 4},
		{"the second slice is deleted", slice("b", "edge-istio", ready), mesh.Delete, "NoResources", 5},
	} {
		batch := inputs(t, []byte(step.objects))
		for i := range batch {
			batch[i].Op = step.op
		}
		c.Convert(append(batch, mesh.Event{Op: mesh.Synced}))
		s := c.Statuses().Get(key).Value.(*gatewayv1.GatewayStatus)
		programmed := meta.FindStatusCondition(s.Conditions, string(gatewayv1.GatewayConditionProgrammed))
		if programmed.Reason != step.want || writes != step.writes {
			t.Errorf("%s: Programmed has the reason %s after %d status changes, want %s after %d", step.name, programmed.Reason, writes, step.want, step.writes)
		}
		if diff := gocmp.Diff("192.0.2.1", s.Addresses[0].Value); diff != "" {
			t.Errorf("%s: address: %s", step.name, diff)
		}
	}
}
