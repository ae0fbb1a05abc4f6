package status

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

func isOwnController(name string) bool { return name == "istio.io/gateway-controller" }

var testTime = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestGatewayAPIPatches merges desired statuses into current ones. Sections: current is the status of the object,
// KIND the desired one (class, gateway, listenerset, route, policy, pool, backend); patch is the output. The patched status must
// need no further patch.
func TestGatewayAPIPatches(t *testing.T) {
	golden.Run(t, "testdata/gatewayapi/*.txtar", func(t *testing.T, c *golden.Case) {
		var value any
		for section, v := range map[string]any{
			"class": &gatewayv1.GatewayClassStatus{}, "gateway": &gatewayv1.GatewayStatus{},
			"listenerset": &gatewayv1.ListenerSetStatus{}, "route": &gatewayv1.RouteStatus{}, "policy": &gatewayv1.PolicyStatus{},
			"pool": &inferencev1.InferencePoolStatus{}, "backend": &gatewayx.BackendStatus{},
		} {
			if c.Has(section) {
				value = v
				if err := yaml.UnmarshalStrict(c.Input(section), v); err != nil {
					t.Fatal(err)
				}
			}
		}
		current := statusDocument(t, c.Input("current"))
		patch, err := current.gatewayAPIPatch(value, isOwnController, testTime)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		if patch != nil {
			if out, err = yaml.Marshal(patch); err != nil {
				t.Fatal(err)
			}
		}
		c.Compare(t, "patch", out)
		for field, x := range patch {
			if current[field] = x; x == nil {
				delete(current, field)
			}
		}
		text, err := yaml.Marshal(current)
		if err != nil {
			t.Fatal(err)
		}
		again, err := statusDocument(t, text).gatewayAPIPatch(value, isOwnController, testTime.Add(time.Hour))
		if err != nil || again != nil {
			t.Errorf("a second patch: %v, %v", again, err)
		}
	})
}

// statusDocument decodes a status as a client does: whole numbers are int64.
func statusDocument(t *testing.T, text []byte) document {
	t.Helper()
	body, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"K","status":%s}`, body)); err != nil {
		t.Fatal(err)
	}
	status, _ := u.Object["status"].(map[string]any)
	if status == nil {
		status = document{}
	}
	return status
}

// TestGatewayAPIEvaluator shows which objects are compared: those of the generation that the status was computed
// from, once per version of the object and of the status.
func TestGatewayAPIEvaluator(t *testing.T) {
	k := config.Key{Kind: api.HTTPRoute, Namespace: "shop", Name: "web"}
	desired := Desired{Generation: 2, Value: &gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{{
		ParentRef: gatewayv1.ParentReference{Name: "gw"}, ControllerName: "istio.io/gateway-controller",
		Conditions: []metav1.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted", ObservedGeneration: 2}},
	}}}}
	asked := 0
	e := &gatewayAPIEvaluator{
		DesiredStatuses: DesiredStatuses{
			Get:   func(config.Key) (Desired, bool) { asked++; return desired, true },
			IsOwn: isOwnController,
		},
		selectsRevision: func(r string) bool { return r == "" },
		now:             func() time.Time { return testTime },
		log:             func(_ config.Key, err error) { t.Error(err) },
	}
	version := func(generation int64, version, revision string, status document) *object {
		return &object{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, Generation: generation, ResourceVersion: version},
			kind:       k.Kind, revision: revision, status: status,
		}
	}
	evaluate := func(o *object) []edit {
		due, _ := e.evaluate(func(f func(*object)) { f(o) })
		return due
	}
	if due := evaluate(version(1, "10", "", nil)); len(due) != 0 {
		t.Errorf("an object of an earlier generation is written: %v", due)
	}
	if due := evaluate(version(2, "11", "canary", nil)); len(due) != 0 {
		t.Errorf("an object of another revision is written: %v", due)
	}
	due := evaluate(version(2, "11", "", nil))
	if len(due) != 1 {
		t.Fatalf("edits %v", due)
	}
	text, err := json.Marshal(due[0].patch)
	if err != nil {
		t.Fatal(err)
	}
	written := statusDocument(t, text)
	if due := evaluate(version(2, "12", "", written)); len(due) != 0 {
		t.Errorf("the written status is written again: %v", due)
	}
	if len(e.upToDate) != 1 {
		t.Errorf("%d objects are known to be up to date", len(e.upToDate))
	}
	desired.Value = &gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{}}
	if due := evaluate(version(2, "12", "", written)); len(due) != 1 {
		t.Errorf("a changed status is not written: %v", due)
	}
}
