package listener

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestAcceptsPerEvent checks max_connections_to_accept_per_socket_event: on listeners that are bound to a TCP port, and no others.
func TestAcceptsPerEvent(t *testing.T) {
	for _, tc := range []struct {
		name     string
		features snapshot.Features
		want     *wrapperspb.UInt32Value
	}{
		{"default", snapshot.Features{}, wrapperspb.UInt32(1)},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP=4", snapshot.Features{AcceptsPerEvent: 4}, wrapperspb.UInt32(4)},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP=0", snapshot.Features{AcceptsPerEvent: -1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, proxy := range []string{"{}", "{type: router}"} {
				v := fixture.NewWith(t, tc.features, []byte(uploadMesh), nil).View(fixture.Proxy(t, []byte(proxy)))
				bound := 0
				for _, r := range NewGenerator().All(v) {
					l, want := golden.Decode(t, r).(*listenerv3.Listener), tc.want
					if l.GetBindToPort() != nil && !l.GetBindToPort().GetValue() {
						want = nil
					} else {
						bound++
					}
					got := l.GetMaxConnectionsToAcceptPerSocketEvent()
					if got.GetValue() != want.GetValue() || (got == nil) != (want == nil) {
						t.Errorf("%s: %v, want %v", l.GetName(), got, want)
					}
				}
				if bound == 0 {
					t.Errorf("%s: no listener is bound", proxy)
				}
			}
		})
	}
}

// TestExactBalance checks connection_balance_config with the metadata of a proxy and with the mesh's
// proxyMetadata, which a proxy's own overrides.
func TestExactBalance(t *testing.T) {
	const both = `defaultConfig: {proxyMetadata: {ISTIO_META_INBOUND_LISTENER_EXACT_BALANCE: "true", ISTIO_META_OUTBOUND_LISTENER_EXACT_BALANCE: "1"}}`
	in, out := mesh.NodeMetadata{InboundExactBalance: true}, mesh.NodeMetadata{OutboundExactBalance: true}
	for _, tc := range []struct {
		name              string
		mesh              string
		metadata          mesh.NodeMetadata
		inbound, outbound bool
	}{
		{"none", "", mesh.NodeMetadata{}, false, false},
		{"inbound", "", in, true, false},
		{"outbound", "", out, false, true},
		{"of the mesh, overridden", both, in, true, false},
		{"of the mesh, to all", both, mesh.NodeMetadata{InboundExactBalance: true, OutboundExactBalance: true}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, kind := range []string{"{}", "{type: router}"} {
				p := fixture.Proxy(t, []byte(kind))
				p.Metadata.InboundExactBalance = tc.metadata.InboundExactBalance
				p.Metadata.OutboundExactBalance = tc.metadata.OutboundExactBalance
				v := fixture.New(t, []byte(uploadMesh), []byte(tc.mesh)).View(p)
				for _, r := range NewGenerator().All(v) {
					l := golden.Decode(t, r).(*listenerv3.Listener)
					want := tc.outbound && !l.GetUseOriginalDst().GetValue()
					if l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND {
						want = tc.inbound
					}
					if got := l.GetConnectionBalanceConfig().GetExactBalance() != nil; got != want {
						t.Errorf("%s %s: exact balance %t, want %t", kind, l.GetName(), got, want)
					}
				}
			}
		})
	}
}
