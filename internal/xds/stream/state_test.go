package stream

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestAckClearsTheRefusal: the message of a refusal stays in the state of the stream until the
// client acknowledges a later response of the type. SyncState follows.
func TestAckClearsTheRefusal(t *testing.T) {
	for _, mode := range []Mode{Delta, SotW} {
		t.Run(mode.String(), func(t *testing.T) {
			m := New(Options{Mode: mode})
			resources := func(body string) *ResourceSnapshot {
				set, err := resource.NewSet(
					[]*resource.Resource{resource.FromBytes("l", api.ListenerType, []byte(body))},
				)
				if err != nil {
					t.Fatal(err)
				}
				return NewResourceSnapshot(map[string][]*ResourceGroup{api.ListenerType: {NewResourceGroup(set)}}, nil)
			}
			step := func(e Event) (sent Send) {
				for _, a := range m.Step(e) {
					if s, ok := a.(Send); ok {
						sent = s
						m.Step(Sent{})
					}
				}
				return sent
			}
			message := func() string {
				for _, s := range m.State() {
					if s.TypeURL == api.ListenerType {
						return s.Message
					}
				}
				t.Fatal("the type was not asked for")
				return ""
			}
			check := func(when string, want SyncState) {
				t.Helper()
				if got := m.SyncState(); got != want {
					t.Errorf("%s the state is %d, want %d", when, got, want)
				}
			}
			check("before the first request", NotSent)
			step(Ready{Resources: resources("bad")})
			bad := step(Request{TypeURL: api.ListenerType})
			check("after the first response", Outdated)
			step(Request{TypeURL: api.ListenerType, Nonce: bad.Nonce, Rejected: true, Message: "l: no such filter"})
			if got := message(); got != "l: no such filter" {
				t.Fatalf("after the refusal the message is %q", got)
			}
			check("after the refusal", Rejecting)
			good := step(Ready{Resources: resources("good")})
			if good.Nonce == "" {
				t.Fatal("the next version was not sent")
			}
			if got := message(); got == "" {
				t.Error("the message was cleared before the client has acknowledged anything")
			}
			step(Request{TypeURL: api.ListenerType, Nonce: good.Nonce, Version: good.Version})
			if got := message(); got != "" {
				t.Errorf("after the ACK the message is %q", got)
			}
			check("after the ACK", Synced)
			step(Request{TypeURL: api.RouteType})
			check("after a request that has no response", NotSent)
		})
	}
}
