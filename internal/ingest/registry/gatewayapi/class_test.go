package gatewayapi_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestClassParameters: a GatewayClass is accepted only while the ConfigMap of its parameters exists
// and has valid overlays.
func TestClassParameters(t *testing.T) {
	var references []config.Key
	c := gatewayapi.New(gatewayapi.Options{Deploys: true, OnReferencesChanged: func(list []config.Key) { references = slices.Clone(list) }})
	class := config.Key{Kind: api.GatewayClass, Name: "large"}
	parameters := config.Key{Kind: api.ConfigMap, Namespace: "infra", Name: "large"}
	overlays := func(data string) mesh.Batch {
		return inputs(t, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large, namespace: infra}\ndata: "+data))
	}
	deleted := overlays("{}")
	deleted[0].Op = mesh.Delete
	for _, step := range []struct {
		name  string
		batch mesh.Batch
		fault string
	}{
		{"without the ConfigMap", append(inputs(t, []byte(`
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: large}
spec: {controllerName: istio.io/gateway-controller, parametersRef: {group: "", kind: ConfigMap, name: large, namespace: infra}}
`)), mesh.Event{Op: mesh.Synced}), "spec.parametersRef: ConfigMap large does not exist in namespace infra"},
		{"with overlays", overlays(`{deployment: "spec: {replicas: 2}"}`), ""},
		{"with an unknown key", overlays(`{pods: "{}"}`), `unknown key "pods"`},
		{"with a malformed overlay", overlays(`{service: "["}`), `key "service"`},
		{"repaired", overlays(`{service: "spec: {type: ClusterIP}"}`), ""},
		{"deleted", deleted, "does not exist"},
	} {
		c.Convert(step.batch)
		condition := c.Statuses().Get(class).Value.(*gatewayv1.GatewayClassStatus).Conditions[0]
		accepted := condition.Status == metav1.ConditionTrue
		if accepted != (step.fault == "") || !accepted && (condition.Reason != "InvalidParameters" || !strings.Contains(condition.Message, step.fault)) {
			t.Errorf("%s: the condition is %v", step.name, condition)
		}
		if !slices.Equal(references, []config.Key{parameters}) {
			t.Errorf("%s: references are %v", step.name, references)
		}
	}
	gone := inputs(t, []byte("kind: GatewayClass\napiVersion: gateway.networking.k8s.io/v1\nmetadata: {name: large}\nspec: {controllerName: a.example.com/b}"))
	c.Convert(gone)
	if c.Statuses().Get(class) != nil || len(references) > 0 {
		t.Errorf("a class of another controller has the status %v, and refers to %v", c.Statuses().Get(class), references)
	}
}
