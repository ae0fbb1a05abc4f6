package gatewayapi_test

import (
	"maps"
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

// TestRemoteGateways: a Gateway of istio-remote or another class of its controller is not served,
// and its routes have no status. Its status has its own addresses, also when it changes from a
// class that is served.
func TestRemoteGateways(t *testing.T) {
	const route = `
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web}
spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: web, port: 80}]}]}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: far}
spec: {controllerName: istio.io/unmanaged-gateway}
`
	edge := config.Key{Kind: api.KubernetesGateway, Namespace: "default", Name: "edge"}
	web := config.Key{Kind: api.HTTPRoute, Namespace: "default", Name: "web"}
	c := gatewayapi.New(gatewayapi.Options{Deploys: true})
	served := map[config.Key]bool{}
	for _, class := range []string{"istio-remote", "istio", "far", "istio-remote"} {
		batch := inputs(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec: {gatewayClassName: `+class+`, addresses: [{value: 192.0.2.1}], listeners: [{name: http, port: 80, protocol: HTTP}]}
`+route))
		for _, e := range c.Convert(append(batch, mesh.Event{Op: mesh.Synced})) {
			if e.Config != nil && (e.Config.Kind == api.Gateway || e.Config.Kind == api.VirtualService) {
				served[e.Config.Key] = e.Op != mesh.Delete
			}
		}
		remote := class != "istio"
		if got := slices.Contains(slices.Collect(maps.Values(served)), true); got == remote {
			t.Errorf("%s: served is %v", class, served)
		}
		if s := c.Statuses().Get(web); (s != nil && len(s.Value.(*gatewayv1.RouteStatus).Parents) > 0) == remote {
			t.Errorf("%s: the status of the route is %+v", class, s)
		}
		if (c.Deployments().Get(edge) != nil) == remote {
			t.Errorf("%s: deployment %+v", class, c.Deployments().Get(edge))
		}
		if !remote {
			continue
		}
		s := c.Statuses().Get(edge).Value.(*gatewayv1.GatewayStatus)
		if len(s.Listeners) > 0 || len(s.Addresses) != 1 || s.Addresses[0].Value != "192.0.2.1" || len(s.Conditions) != 2 ||
			s.Conditions[0].Status != metav1.ConditionTrue || s.Conditions[1].Status != metav1.ConditionTrue {
			t.Errorf("%s: the status is %+v", class, s)
		}
	}
}

// TestSetsOfRemoteGateways checks that a ListenerSet of a Gateway of istio-remote is refused, also
// when the Gateway changes from another class, and has no status while the class is of another
// controller.
func TestSetsOfRemoteGateways(t *testing.T) {
	t.Parallel()
	const set = `
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more}
spec: {parentRef: {name: edge}, listeners: [{name: http, port: 81, protocol: HTTP}]}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: foreign}
spec: {controllerName: example.com/controller}
`
	more := config.Key{Kind: api.ListenerSet, Namespace: "default", Name: "more"}
	c := gatewayapi.New(gatewayapi.Options{Deploys: true})
	problems := map[string][]config.Problem{}
	for _, step := range []struct{ class, accepted string }{
		{"foreign", ""}, {"istio-remote", "NotAllowed"}, {"foreign", ""}, {"istio", "Accepted"}, {"istio-remote", "NotAllowed"},
	} {
		batch := inputs(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec: {gatewayClassName: `+step.class+`, allowedListeners: {namespaces: {from: All}}, listeners: [{name: http, port: 80, protocol: HTTP}]}
`+set))
		for _, e := range c.Convert(append(batch, mesh.Event{Op: mesh.Synced})) {
			if e.Problems != nil {
				problems[e.Problems.Scope] = e.Problems.List
			}
		}
		accepted := ""
		if s := c.Statuses().Get(more); s != nil {
			value := s.Value.(*gatewayv1.ListenerSetStatus)
			accepted = value.Conditions[0].Reason
			if refused := step.class == "istio-remote"; refused && (len(value.Listeners) > 0 ||
				value.Conditions[0].Status != metav1.ConditionFalse || value.Conditions[1].Status != metav1.ConditionFalse) {
				t.Errorf("%s: the status is %+v", step.class, value)
			}
		}
		if accepted != step.accepted {
			t.Errorf("%s: the ListenerSet is %q, want %q", step.class, accepted, step.accepted)
		}
		var found []string
		for _, list := range problems {
			for _, p := range list {
				if p.Key == more {
					found = append(found, p.Reason)
				}
			}
		}
		if wrong := step.class == "istio-remote"; (len(found) == 1) != wrong {
			t.Errorf("%s: the problems are %q", step.class, found)
		}
	}
}
