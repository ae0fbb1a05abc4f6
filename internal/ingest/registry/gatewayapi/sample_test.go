package gatewayapi_test

import (
	"os"
	"strings"
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
	requireTrue(t, "www", status)
}

// TestBookinfoSamples: the routes for Bookinfo are accepted, one file of reviews at a time, as the
// README applies them.
func TestBookinfoSamples(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../../../samples/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return "\n---\n" + string(text)
	}
	installed := ""
	for document := range strings.SplitSeq(read("bookinfo/kubernetes/bookinfo.yaml"), "\n---\n") {
		if strings.Contains(document, "\nkind: Service\n") {
			installed += "\n---\n" + document
		}
	}
	installed += read("gateway-api/bookinfo.yaml") + read("gateway-api/bookinfo-versions.yaml")
	for _, file := range []string{"reviews-v1", "reviews-jason-v2", "reviews-90-10", "reviews-at-gateway"} {
		c, s := gatewayapi.New(gatewayapi.Options{}), newState()
		s.apply(t, c.Convert(inputs(t, []byte(installed+read("gateway-api/"+file+".yaml")))))
		if len(s.problems) > 0 {
			t.Errorf("%s: problems are %v", file, s.problems)
		}
		routes := 0
		for k, status := range c.Statuses().All() {
			if k.Kind == api.HTTPRoute {
				routes++
				requireTrue(t, file+": "+k.Name, status)
			}
		}
		if routes != 2 {
			t.Errorf("%s: %d routes have a status, want that of Bookinfo and one more", file, routes)
		}
	}
}

// requireTrue fails the test if a condition of a route's only parent is not true.
func requireTrue(t *testing.T, route string, status *gatewayapi.Status) {
	t.Helper()
	parents := status.Value.(*gatewayv1.RouteStatus).Parents
	if len(parents) != 1 {
		t.Fatalf("%s has %d parents", route, len(parents))
	}
	for _, condition := range parents[0].Conditions {
		if condition.Status != metav1.ConditionTrue {
			t.Errorf("%s: condition %s is %s: %s", route, condition.Type, condition.Status, condition.Message)
		}
	}
}

// TestInferencePoolSample: the route and the pool of the sample are accepted, without Problems.
func TestInferencePoolSample(t *testing.T) {
	text, err := os.ReadFile("../../../../samples/gateway-api/inference-pool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, s := gatewayapi.New(gatewayapi.Options{InferencePools: true}), newState()
	s.apply(t, c.Convert(inputs(t, text)))
	if len(s.problems) != 0 || len(s.services) != 1 {
		t.Errorf("problems are %v, services %v", s.problems, s.services)
	}
	status := c.Statuses().Get(config.Key{Kind: api.HTTPRoute, Namespace: "default", Name: "models"})
	if status == nil {
		t.Fatal("the route has no status")
	}
	requireTrue(t, "models", status)
}
