package translate

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// messages decodes what generators make of a kind.
func messages[M proto.Message](t *testing.T, table *Table, v *view.View, typeURL string, empty func() M) (list []M) {
	t.Helper()
	for _, g := range table.Generators {
		if g.TypeURL != typeURL || g.All == nil {
			continue
		}
		for _, r := range g.All(v) {
			m := empty()
			if err := proto.Unmarshal(r.Body, m); err != nil {
				t.Fatal(err)
			}
			list = append(list, m)
		}
	}
	return list
}

// TestMissingTLSObjectsFailClosed: TLS settings that refer to a missing object do not fall back to
// plain text, for sidecars and gateways, inbound and outbound (GHSA-qm8v-g4f9-qhjx).
// T-FAILCLOSED-REF.
func TestMissingTLSObjectsFailClosed(t *testing.T) {
	table := NewTable(Options{})
	proxies := map[string]string{
		"sidecar": "{type: sidecar, name: p, namespace: default, addresses: [10.0.0.1], labels: {app: p}}",
		"known":   "{type: sidecar, name: p, namespace: default, addresses: [10.0.0.1], identity: true, labels: {app: p}}",
		"gateway": "{type: router, name: g, namespace: default, addresses: [10.0.0.2], identity: true, labels: {istio: edge}}",
	}
	for _, mode := range []string{"SIMPLE", "MUTUAL", "ISTIO_MUTUAL"} {
		references := []string{
			"credentialName: nowhere", "caCertificates: /nowhere/ca.pem",
			"credentialName: 'bad name/x'", "caCrl: /nowhere/crl.pem",
		}
		for _, reference := range append(
			references,
			"clientCertificate: /nowhere/a, privateKey: /nowhere/b, caCertificates: /nowhere/c",
		) {
			if mode == "ISTIO_MUTUAL" {
				reference = "sni: x"
			}
			text := fmt.Sprintf(`
kind: ServiceEntry
metadata: {name: away}
spec: {hosts: [away.example.com], location: MESH_EXTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.9.9.9}]}
---
kind: DestinationRule
metadata: {name: away}
spec: {host: away.example.com, trafficPolicy: {tls: {mode: %[1]s, %[2]s}, portLevelSettings: [{port: {number: 80}, tls: {mode: %[1]s, %[2]s}}]}, subsets: [{name: v1}]}
`, mode, reference)
			for name, proxy := range proxies {
				v := fixture.New(t, []byte(text), nil).View(fixture.Proxy(t, []byte(proxy)))
				found := 0
				for _, c := range messages(
					t,
					table,
					v,
					api.ClusterType,
					func() *clusterv3.Cluster { return new(clusterv3.Cluster) },
				) {
					if !strings.Contains(c.GetName(), "away.example.com") {
						continue
					}
					found++
					if !secured(c) {
						t.Errorf("%s {%s, %s}: the cluster %s calls in the clear: %v", name, mode,
							reference, c.GetName(), c)
					}
				}
				if found == 0 {
					t.Logf("%s {%s, %s}: no cluster", name, mode, reference)
				}
			}
		}
	}
	for _, tls := range []string{
		"mode: SIMPLE, credentialName: nowhere", "mode: MUTUAL, credentialName: nowhere", "mode: SIMPLE, serverCertificate: /nowhere/a, privateKey: /nowhere/b",
		"mode: MUTUAL, serverCertificate: /nowhere/a, privateKey: /nowhere/b, caCertificates: /nowhere/c", "mode: ISTIO_MUTUAL", "mode: OPTIONAL_MUTUAL, credentialName: nowhere",
		"mode: SIMPLE, credentialName: 'bad name/x'", "mode: SIMPLE",
	} {
		v := fixture.New(t, fmt.Appendf(nil, `
kind: Gateway
metadata: {name: edge}
spec: {selector: {istio: edge}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {%s}}]}
---
kind: VirtualService
metadata: {name: edge}
spec: {hosts: ["*"], gateways: [edge], http: [{directResponse: {status: 200}}]}
`, tls), nil).View(fixture.Proxy(t, []byte(proxies["gateway"])))
		for _, l := range messages(
			t,
			table,
			v,
			api.ListenerType,
			func() *listenerv3.Listener { return new(listenerv3.Listener) },
		) {
			for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
				if c == nil || len(c.GetFilters()) == 0 ||
					c.GetFilters()[0].GetName() != "envoy.filters.network.http_connection_manager" {
					continue
				}
				if got := new(tlsv3.DownstreamTlsContext); c.GetTransportSocket().GetTypedConfig().UnmarshalTo(got) != nil {
					t.Errorf("{%s}: the listener %s is called in the clear", tls, l.GetName())
				}
			}
		}
	}
}

// secured reports whether a cluster uses only TLS.
func secured(c *clusterv3.Cluster) bool {
	for _, m := range c.GetTransportSocketMatches() {
		if !m.GetTransportSocket().GetTypedConfig().MessageIs((*tlsv3.UpstreamTlsContext)(nil)) {
			return false
		}
	}
	return c.GetTransportSocket().GetTypedConfig().MessageIs((*tlsv3.UpstreamTlsContext)(nil))
}
