package route

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestFeatures checks what routes follow of the settings that istiod has as environment variables.
func TestFeatures(t *testing.T) {
	const reviews = `
{kind: Service, metadata: {name: reviews}, spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}}
---
{kind: Service, metadata: {name: alias}, spec: {type: ExternalName, externalName: reviews.default.svc.cluster.local}}
---
kind: VirtualService
metadata: {name: reviews}
spec: {hosts: [reviews], http: [{mirror: {host: reviews}, route: [{destination: {host: reviews}}]}]}
`
	for _, test := range []struct {
		name             string
		features         snapshot.Features
		absolute, shadow bool
	}{
		{"default", snapshot.Features{}, true, false},
		{"PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN=false", snapshot.Features{RelativeHosts: true}, false, false},
		{"DISABLE_SHADOW_HOST_SUFFIX=false", snapshot.Features{ShadowHosts: true}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := fixture.NewWith(t, test.features, []byte(reviews), nil).View(fixture.Proxy(t, nil))
			c := golden.Decode(t, NewGenerator().Named(v, "80")).(*routev3.RouteConfiguration)
			h := c.GetVirtualHosts()[0]
			absolute := slices.ContainsFunc(h.GetDomains(), func(d string) bool { return strings.HasSuffix(d, ".") })
			if absolute != test.absolute || !slices.Contains(h.GetDomains(), "alias.default.svc.cluster.local") {
				t.Errorf("domains %v; want absolute ones: %t", h.GetDomains(), test.absolute)
			}
			mirrors := h.GetRoutes()[0].GetRoute().GetRequestMirrorPolicies()
			if len(mirrors) != 1 || mirrors[0].GetDisableShadowHostSuffixAppend() == test.shadow {
				t.Errorf("mirrors %v; want hosts with -shadow: %t", mirrors, test.shadow)
			}
		})
	}
}
