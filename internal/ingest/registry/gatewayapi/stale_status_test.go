package gatewayapi_test

import (
	"slices"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestStatusOfRouteThatLeaves: the status of a route that leaves its last parent of this controller
// has no parents, so that the writer removes the entry that the object has.
func TestStatusOfRouteThatLeaves(t *testing.T) {
	const gateway = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	route := func(parent string) string {
		return `
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web}
spec: {parentRefs: [{name: ` + parent + `}]}
`
	}
	key := config.Key{Kind: api.HTTPRoute, Namespace: "default", Name: "web"}
	var changed []config.Key
	c := gatewayapi.New(gatewayapi.Options{OnStatusesChanged: func(list []config.Key) { changed = append(changed, list...) }})
	c.Convert(append(inputs(t, []byte(gateway+"---"+route("edge"))), mesh.Event{Op: mesh.Synced}))
	for _, step := range []struct {
		name, objects string
		op            mesh.Op
		parents       int
	}{
		{"another parent", route("other"), mesh.Upsert, 0},
		{"the Gateway again", route("edge"), mesh.Upsert, 1},
		{"the Gateway is deleted", gateway, mesh.Delete, 0},
	} {
		changed = nil
		batch := inputs(t, []byte(step.objects))
		batch[0].Op = step.op
		c.Convert(batch)
		status := c.Statuses().Get(key)
		if status == nil {
			t.Errorf("%s: the route has no status", step.name)
		} else if n := len(status.Value.(*gatewayv1.RouteStatus).Parents); n != step.parents {
			t.Errorf("%s: the status has %d parents, want %d", step.name, n, step.parents)
		}
		if !slices.Contains(changed, key) {
			t.Errorf("%s: the change of the status is not reported", step.name)
		}
	}
}
