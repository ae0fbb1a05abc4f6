package listener

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

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
