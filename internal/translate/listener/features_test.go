package listener

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"

	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// filterChainsOf returns all filter chains of listeners of a proxy.
func filterChainsOf(t *testing.T, m *fixture.Mesh, proxy string) []*listenerv3.FilterChain {
	t.Helper()
	var list []*listenerv3.FilterChain
	for _, r := range NewGenerator().All(m.View(fixture.Proxy(t, []byte(proxy)))) {
		l := golden.Decode(t, r).(*listenerv3.Listener)
		list = append(list, l.GetFilterChains()...)
		if c := l.GetDefaultFilterChain(); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// TestHandshakeTimeout checks the timeout of TLS handshakes with gateways.
func TestHandshakeTimeout(t *testing.T) {
	const gateway = `
kind: Gateway
metadata: {name: edge}
spec:
  servers:
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, serverCertificate: /cert.pem, privateKey: /key.pem}}
`
	for _, test := range []struct {
		name       string
		configured time.Duration
		want       *durationpb.Duration
	}{
		{"default", 0, durationpb.New(15 * time.Second)},
		{"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT=1m", time.Minute, durationpb.New(time.Minute)},
		{"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT=0", -1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := fixture.NewWith(t, snapshot.Features{HandshakeTimeout: test.configured}, []byte(gateway), nil)
			found := false
			for _, c := range filterChainsOf(t, m, "{type: router}") {
				if c.GetTransportSocket() == nil {
					continue
				}
				found = true
				if diff := cmp.Diff(test.want, c.GetTransportSocketConnectTimeout(), protocmp.Transform()); diff != "" {
					t.Errorf("chain %q (-want +got):\n%s", c.GetName(), diff)
				}
			}
			if !found {
				t.Error("no chain terminates TLS")
			}
		})
	}
}

// TestInternalNetworks checks that connection managers of sidecars and gateways trust the ranges of
// MeshNetworks, sorted and without duplicates; sidecars with InternalNetworks only.
func TestInternalNetworks(t *testing.T) {
	const networks = `
networks:
  west: {endpoints: [{fromCidr: 192.168.7.1/16}, {fromRegistry: west}, {fromCidr: 10.0.0.0/8}]}
  east: {endpoints: [{fromCidr: 10.0.0.0/8}, {fromCidr: "fd00::/8"}]}
`
	parsed, err := mesh.ParseMeshNetworks([]byte(networks))
	if err != nil {
		t.Fatal(err)
	}
	ranges := &hcmv3.HttpConnectionManager_InternalAddressConfig{CidrRanges: []*corev3.CidrRange{
		{AddressPrefix: "10.0.0.0", PrefixLen: wrapperspb.UInt32(8)},
		{AddressPrefix: "192.168.0.0", PrefixLen: wrapperspb.UInt32(16)},
		{AddressPrefix: "fd00::", PrefixLen: wrapperspb.UInt32(8)},
	}}
	for _, test := range []struct {
		name     string
		enabled  bool
		networks bool
		want     *hcmv3.HttpConnectionManager_InternalAddressConfig
	}{
		{"default", false, true, ranges},
		{"default without networks", false, false, nil},
		{"ENABLE_HCM_INTERNAL_NETWORKS=true", true, true, ranges},
		{"ENABLE_HCM_INTERNAL_NETWORKS=true without networks", true, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := fixture.NewWith(t, snapshot.Features{InternalNetworks: test.enabled}, []byte(uploadMesh), nil)
			if test.networks {
				m.Send(mesh.Event{Settings: &mesh.Settings{Networks: parsed}})
			}
			for _, proxy := range []string{"{}", "{type: router}"} {
				found, want := false, test.want
				if proxy == "{}" && !test.enabled {
					want = nil
				}
				for _, c := range filterChainsOf(t, m, proxy) {
					for _, f := range c.GetFilters() {
						h := new(hcmv3.HttpConnectionManager)
						if f.GetTypedConfig().UnmarshalTo(h) != nil {
							continue
						}
						found = true
						if diff := cmp.Diff(want, h.GetInternalAddressConfig(), protocmp.Transform()); diff != "" {
							t.Errorf("%s, chain %q (-want +got):\n%s", proxy, c.GetName(), diff)
						}
					}
				}
				if !found {
					t.Errorf("%s: no chain has HTTP", proxy)
				}
			}
		})
	}
}

// TestIPv4Outbound checks on which addresses virtualOutbound and virtualInbound listen with
// IPv4Outbound: only virtualOutbound of proxies with IPv6 alone gets another one.
func TestIPv4Outbound(t *testing.T) {
	for _, test := range []struct {
		name, proxy string
		enabled     bool
		out, in     []string
	}{
		{"IPv6", `{addresses: ["fd00::9"]}`, false, []string{"::"}, []string{"::"}},
		{"IPv6, enabled", `{addresses: ["fd00::9"]}`, true, []string{"::", "0.0.0.0"}, []string{"::"}},
		{"IPv4, enabled", "{addresses: [10.9.9.9]}", true, []string{"0.0.0.0"}, []string{"0.0.0.0"}},
		{"both, enabled", `{addresses: [10.9.9.9, "fd00::9"]}`, true, []string{"0.0.0.0", "::"}, []string{"0.0.0.0", "::"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := fixture.NewWith(t, snapshot.Features{IPv4Outbound: test.enabled}, []byte(uploadMesh), nil)
			for _, r := range NewGenerator().All(m.View(fixture.Proxy(t, []byte(test.proxy)))) {
				want, ok := map[string][]string{virtualOutbound: test.out, virtualInbound: test.in}[r.Name]
				if !ok {
					continue
				}
				l := golden.Decode(t, r).(*listenerv3.Listener)
				got := []string{l.GetAddress().GetSocketAddress().GetAddress()}
				for _, a := range l.GetAdditionalAddresses() {
					got = append(got, a.GetAddress().GetSocketAddress().GetAddress())
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", r.Name, diff)
				}
			}
		})
	}
}
