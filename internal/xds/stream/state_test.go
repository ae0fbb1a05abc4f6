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

// TestSilentTypeWithoutResponse: a type that is not answered while there is nothing to send is
// synchronized without a response, if the client has the current version or the mesh has no
// resource. One that the client lacks is not.
func TestSilentTypeWithoutResponse(t *testing.T) {
	of := func(body string) *resource.Resource {
		return resource.FromBytes("proxyconfig", api.ProxyConfigType, []byte(body))
	}
	for _, c := range []struct {
		name     string
		mode     Mode
		has      []*resource.Resource
		held     *Holdings
		want     SyncState
		upToDate bool
	}{
		{"current version", Delta, []*resource.Resource{of("new")}, HoldingsOf(map[string]string{"proxyconfig": of("new").Version}), Synced, true},
		{"older version", Delta, []*resource.Resource{of("new")}, HoldingsOf(map[string]string{"proxyconfig": of("old").Version}), Outdated, false},
		{"nothing in the mesh", Delta, nil, nil, Synced, true},
		{"nothing in the mesh", SotW, nil, nil, Synced, true},
	} {
		t.Run(c.name+", "+c.mode.String(), func(t *testing.T) {
			set, err := resource.NewSet(c.has)
			if err != nil {
				t.Fatal(err)
			}
			m := New(Options{Mode: c.mode})
			m.Step(Request{TypeURL: api.ProxyConfigType, Held: c.held})
			if got := m.SyncState(); got != NotSent {
				t.Errorf("before the first ResourceSnapshot the state is %d, want %d", got, NotSent)
			}
			m.Step(Ready{Resources: NewResourceSnapshot(
				map[string][]*ResourceGroup{api.ProxyConfigType: {NewResourceGroup(set)}}, nil)})
			if got := m.SyncState(); got != c.want || m.State()[0].NeedsNoResponse != c.upToDate {
				t.Errorf("the state is %d, want %d: %+v", got, c.want, m.State())
			}
		})
	}
}
