package explain

import (
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestGatewayAPIRule: the name of a route identifies the rule of its HTTPRoute, by name or position.
func TestGatewayAPIRule(t *testing.T) {
	key := config.Key{Kind: api.HTTPRoute, Namespace: "shop", Name: "web.v1"}
	named := gatewayv1.SectionName("checkout")
	object := &config.Config{Meta: config.Meta{Key: key}, Spec: &gatewayv1.HTTPRoute{
		Spec: gatewayv1.HTTPRouteSpec{Rules: []gatewayv1.HTTPRouteRule{{}, {Name: &named}}},
	}}
	find := func(k config.Key) *config.Config {
		if k == key {
			return object
		}
		return nil
	}
	for _, tt := range []struct {
		key        config.Key
		name, want string
		ok         bool
	}{
		{key, "shop.web.v1.0", "spec.rules[0]", true},
		{key, "shop.web.v1.checkout", "spec.rules[1]", true},
		{key, "shop.web.v1.other", "", true},
		{key, "something", "", true},
		{config.Key{Kind: api.GRPCRoute, Namespace: "shop", Name: "gone"}, "shop.gone.3", "spec.rules[3]", true},
		{config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "web"}, "shop.web.0", "", false},
	} {
		if got, ok := gatewayAPIRule(tt.key, tt.name, find); got != tt.want || ok != tt.ok {
			t.Errorf("the rule of %q of %s is %q, %v, want %q, %v", tt.name, tt.key, got, ok, tt.want, tt.ok)
		}
	}
}
