package invalidconfig

import (
	"fmt"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// missingParts returns a part of a resource that another version of it does not have, or "". The
// parts are the domains and routes of virtual hosts, in their order, and the filter chains of
// listeners. Resources of other types have one part.
func missingParts(t *testing.T, before, after *resource.Resource) string {
	t.Helper()
	a, b := golden.Decode(t, before), golden.Decode(t, after)
	switch a := a.(type) {
	case *routev3.RouteConfiguration:
		return missingRoutes(a, b.(*routev3.RouteConfiguration))
	case *listenerv3.Listener:
		return missingOf("filter chain", a.FilterChains, b.(*listenerv3.Listener).FilterChains)
	default:
		return fmt.Sprintf("its content: %v, now %v", a, b)
	}
}

func missingRoutes(before, after *routev3.RouteConfiguration) string {
	for _, h := range before.VirtualHosts {
		i := slices.IndexFunc(after.VirtualHosts, func(o *routev3.VirtualHost) bool { return o.Name == h.Name })
		if i < 0 {
			return "virtual host " + h.Name
		}
		now := after.VirtualHosts[i]
		if !slices.Equal(h.Domains, now.Domains) {
			return fmt.Sprintf("domains %q of virtual host %s: now %q", h.Domains, h.Name, now.Domains)
		}
		if missing := missingOf("route", h.Routes, now.Routes); missing != "" {
			return missing + " of virtual host " + h.Name
		}
	}
	return ""
}

// missingOf returns the first message that another list does not have in the same order, or "".
func missingOf[M proto.Message](what string, before, after []M) string {
	for _, m := range before {
		i := slices.IndexFunc(after, func(o M) bool { return proto.Equal(m, o) })
		if i < 0 {
			return fmt.Sprintf("%s %v", what, m)
		}
		after = after[i+1:]
	}
	return ""
}
