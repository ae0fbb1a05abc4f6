package describe

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestMatchWithoutConditions: a route with a match without conditions applies to all requests,
// whatever its other matches are.
func TestMatchWithoutConditions(t *testing.T) {
	path := &networking.HTTPMatchRequest{
		Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/a"}},
	}
	http := func(matches ...*networking.HTTPMatchRequest) *networking.VirtualService {
		return &networking.VirtualService{Http: []*networking.HTTPRoute{{Match: matches}}}
	}
	tcp := func(matches ...*networking.L4MatchAttributes) *networking.VirtualService {
		return &networking.VirtualService{Tcp: []*networking.TCPRoute{{Match: matches}}}
	}
	for name, tt := range map[string]struct {
		spec *networking.VirtualService
		want string
	}{
		"HTTP, both with conditions": {http(path, &networking.HTTPMatchRequest{Port: 80}), "/a* or port"},
		"HTTP, the second without":   {http(path, &networking.HTTPMatchRequest{}), ""},
		"HTTP, the first without":    {http(&networking.HTTPMatchRequest{Name: "rest"}, path), ""},
		"HTTP, no match":             {http(), ""},
		"TCP, both with conditions": {
			tcp(&networking.L4MatchAttributes{Port: 80}, &networking.L4MatchAttributes{SourceNamespace: "a"}),
			"port or sourceNamespace",
		},
		"TCP, the second without": {tcp(&networking.L4MatchAttributes{Port: 80}, &networking.L4MatchAttributes{}), ""},
		"TCP, the first without":  {tcp(&networking.L4MatchAttributes{}, &networking.L4MatchAttributes{Port: 80}), ""},
	} {
		routes := routesOf(&snapshot.VirtualService{Spec: tt.spec})
		if len(routes) != 1 || routes[0].Match != tt.want {
			t.Errorf("%s: %+v, want match %q", name, routes, tt.want)
		}
	}
}
