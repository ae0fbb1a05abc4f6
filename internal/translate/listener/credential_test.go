package listener

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestCredentialsTouched checks that listeners are updated when the service of the SDS provider
// appears, and only by it.
func TestCredentialsTouched(t *testing.T) {
	const (
		mesh     = `extensionProviders: [{name: vault, sds: {service: sds.vault.svc.cluster.local, port: 8443}}]`
		provider = `{kind: Service, metadata: {name: sds, namespace: vault}, spec: {clusterIP: 10.96.0.10, ports: [{name: grpc, port: 8443}]}}`
		other    = `{kind: Service, metadata: {name: other}, spec: {clusterIP: 10.96.0.11, ports: [{name: grpc, port: 8443}]}}`
		sidecar  = `{kind: Sidecar, metadata: {name: web}, spec: {ingress: [{port: {number: 8443, protocol: HTTPS, name: a}, defaultEndpoint: "127.0.0.1:80"}]}}`
	)
	for _, tc := range []struct {
		name, mesh, proxy, edit string
		gateway, own            bool
	}{
		{"the service of the provider, gateway", mesh, "type: router", provider, true, false},
		{"another service, gateway", mesh, "type: router", other, false, false},
		{"no provider", "", "type: router", provider, false, false},
		{"a server beside the proxy", mesh, "type: router\ncredentialServer: true", provider, false, false},
		{"the service of the provider, sidecar", mesh, "type: sidecar", provider, false, true},
		{"another service, sidecar", mesh, "type: sidecar", other, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, g := fixture.New(t, []byte(sidecar), []byte(tc.mesh)), NewGenerator()
			v := m.View(fixture.Proxy(t, []byte(tc.proxy)))
			s, d := m.Apply(t, tc.edit)
			if got := g.GatewayTouched(v, s, d); got != tc.gateway {
				t.Errorf("gateway listeners touched: %t, want %t", got, tc.gateway)
			}
			if got := g.OwnTouched(v, s, d); got != tc.own {
				t.Errorf("own listeners touched: %t, want %t", got, tc.own)
			}
		})
	}
}
