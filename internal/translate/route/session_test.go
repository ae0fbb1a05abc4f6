package route

import (
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// callee is a service on one port, with a label; called leads the requests to another one to it.
func callee(label string) string {
	return `
kind: ServiceEntry
metadata: {name: callee, labels: {` + label + `}}
spec: {hosts: [callee.example.com], resolution: STATIC, addresses: [10.9.0.1], ports: [{name: http, number: 80, protocol: HTTP}]}
`
}

const called = `
kind: ServiceEntry
metadata: {name: called}
spec: {hosts: [called.example.com], resolution: STATIC, addresses: [10.9.0.2], ports: [{name: http, number: 9080, protocol: HTTP}]}
---
kind: VirtualService
metadata: {name: called}
spec: {hosts: [called.example.com], http: [{route: [{destination: {host: callee.example.com, port: {number: 80}}}]}]}
`

// TestSessionOfADestination: routes to a service with sessions have session settings, in its own
// virtual hosts and in VirtualServices for other ports. They change with the service's labels.
func TestSessionOfADestination(t *testing.T) {
	for _, on := range []bool{true, false} {
		m := fixture.NewWith(t, snapshot.Features{PersistentSessions: on}, []byte(called+"---"+callee("")), nil)
		g, proxy := NewGenerator(), fixture.Proxy(t, nil)
		for _, step := range []struct{ label, want string }{
			{"istio.io/persistent-session: sid", "cookie sid of /"},
			{"istio.io/persistent-session: 'sid:/shop'", "cookie sid of /shop"},
			{"istio.io/persistent-session-header: x-session", "header x-session"},
			{"istio.io/persistent-session: sid, istio.io/persistent-session-header: x-session", "cookie sid of /"},
			{"", "none"},
		} {
			old := m.View(proxy)
			_, d := m.Apply(t, callee(step.label))
			v := m.View(proxy)
			want, affected := "none", g.Affected(old, v, d, []string{"80", "9080"})
			if on {
				want = step.want
				if !slices.Contains(affected, "80") || !slices.Contains(affected, "9080") {
					t.Errorf("%s: affects %v", step.label, affected)
				}
			}
			for _, name := range []string{"80", "9080"} {
				c, ok := golden.Decode(t, g.Named(v, name)).(*routev3.RouteConfiguration)
				if !ok {
					t.Fatal("not a RouteConfiguration")
				}
				if got := session(t, c); got != want {
					t.Errorf("%s: port %s: session %s, want %s", step.label, name, got, want)
				}
			}
		}
	}
}

// session returns the session of the first route that leads to callee.
func session(t *testing.T, c *routev3.RouteConfiguration) string {
	t.Helper()
	for _, h := range c.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			if r.GetRoute().GetCluster() != "outbound|80||callee.example.com" {
				continue
			}
			config := r.GetTypedPerFilterConfig()[sessionFilter]
			if config == nil {
				return "none"
			}
			per := new(sessionv3.StatefulSessionPerRoute)
			cookie, header := new(cookiev3.CookieBasedSessionState), new(headerv3.HeaderBasedSessionState)
			must(t, config.UnmarshalTo(per))
			state := per.GetStatefulSession().GetSessionState().GetTypedConfig()
			if state.UnmarshalTo(cookie) == nil {
				return "cookie " + cookie.GetCookie().GetName() + " of " + cookie.GetCookie().GetPath()
			}
			must(t, state.UnmarshalTo(header))
			return "header " + header.GetName()
		}
	}
	return "no route"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
