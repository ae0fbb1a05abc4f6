package gatewayapi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestMeshObject: an XMesh has a status while its controllerName is this project's.
func TestMeshObject(t *testing.T) {
	c := gatewayapi.New(gatewayapi.Options{})
	for controller, want := range map[string]bool{gatewayapi.ControllerName: true, "example.com/mesh": false} {
		c.Convert(append(inputs(t, []byte(`
kind: XMesh
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {name: m}
spec: {controllerName: `+controller+`}
`)), mesh.Event{Op: mesh.Synced}))
		status := c.Statuses().Get(config.Key{Kind: api.XMesh, Name: "m"})
		if !want {
			if status != nil {
				t.Errorf("%s: the status is %v", controller, status)
			}
			continue
		}
		s := status.Value.(*gatewayx.MeshStatus)
		if s.Conditions[0].Status != metav1.ConditionTrue || len(s.SupportedFeatures) < 3 {
			t.Errorf("%s: the status is %v", controller, s)
		}
	}
}
