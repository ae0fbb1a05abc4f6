package route

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// TestOperationPath: spans have the path of the route's match, as istiod names it.
func TestOperationPath(t *testing.T) {
	for want, match := range map[string]*routev3.RouteMatch{
		"/a*": {PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}},
		"/a":  {PathSpecifier: &routev3.RouteMatch_Path{Path: "/a"}},
		"/*":  {PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: "/a"}},
		"/.+": {PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "/.+"}}},
	} {
		if got := operationPath(match); got != want {
			t.Errorf("the path of %v is %q, want %q", match, got, want)
		}
	}
}
