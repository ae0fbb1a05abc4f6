package gatewayapi_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestSample: the routes of samples/gateway-api are accepted, and its only Problem is the
// certificate, which the README creates.
func TestSample(t *testing.T) {
	text, err := os.ReadFile("../../../../samples/gateway-api/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, s := gatewayapi.New(gatewayapi.Options{}), newState()
	s.apply(t, c.Convert(inputs(t, text)))
	if len(s.problems) != 1 {
		t.Errorf("problems are %v", s.problems)
	}
	status := c.Statuses().Get(config.Key{Kind: api.HTTPRoute, Namespace: "default", Name: "www"})
	if status == nil {
		t.Fatal("the route has no status")
	}
	for _, condition := range status.Value.(*gatewayv1.RouteStatus).Parents[0].Conditions {
		if condition.Status != metav1.ConditionTrue {
			t.Errorf("condition %s is %s: %s", condition.Type, condition.Status, condition.Message)
		}
	}
}
