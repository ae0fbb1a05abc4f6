package listener

import (
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestServersOfDeployedGateways: a proxy that has authenticated as another service account than the
// deployed Gateway's does not serve TLS with its certificates, and the Gateway gets a Problem.
func TestServersOfDeployedGateways(t *testing.T) {
	spec := &networking.Gateway{Servers: []*networking.Server{
		{Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}},
		{
			Port: &networking.Port{Number: 443, Name: "https", Protocol: "HTTPS"}, Hosts: []string{"*"},
			Tls: &networking.ServerTLSSettings{
				Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: "kubernetes-gateway://shop/named",
			},
		},
	}}
	c, err := config.New(config.Meta{
		Key:       config.Key{Kind: api.Gateway, Namespace: "shop", Name: "edge"},
		Extension: &config.Extension{Gateway: &config.GatewayExtension{OwnNamespace: true, ServiceAccount: "edge-istio"}},
	}, spec)
	if err != nil {
		t.Fatal(err)
	}
	m := fixture.New(t, nil, nil)
	m.Send(mesh.Event{Config: c})
	for _, test := range []struct{ account, ports, problem string }{
		{"account: edge-istio, ", "80 443", ""},
		{"", "80 443", ""},
		{
			"account: default, ", "80",
			"spec.servers[1].tls.credentialName: gateways with the service account default do not serve this: " +
				"the proxies of the Gateway have the service account edge-istio",
		},
	} {
		v, g := m.View(fixture.Proxy(t, []byte("{type: router, "+test.account+"namespace: shop}"))), NewGenerator()
		var ports []string
		for _, l := range listenersOf(t, g, v) {
			if _, port, ok := strings.Cut(l.GetName(), "0.0.0.0_"); ok {
				ports = append(ports, port)
			}
		}
		if got := strings.Join(ports, " "); got != test.ports {
			t.Errorf("account %q: listeners at %s, want %s", test.account, got, test.ports)
		}
		if got := problemText(g.Problems(v)); !strings.Contains(got, test.problem) || (test.problem == "") != (got == "") {
			t.Errorf("account %q: problems %q, want %q", test.account, got, test.problem)
		}
	}
}
