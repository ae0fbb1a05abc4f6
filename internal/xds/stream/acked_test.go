package stream

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestClientsThatNameListeners: gRPC servers request a listener by name and no clusters, so they
// lack no clusters. An Envoy that has not requested clusters yet will request them.
func TestClientsThatNameListeners(t *testing.T) {
	cluster := resource.FromBytes("c", api.ClusterType, []byte("c"))
	listener := resource.FromBytes("l", api.ListenerType, []byte("l"))
	other := resource.FromBytes("other", api.ListenerType, []byte("o"))
	group := func(list ...*resource.Resource) []*ResourceGroup {
		set, err := resource.NewSet(list)
		if err != nil {
			t.Fatal(err)
		}
		return []*ResourceGroup{NewResourceGroup(set)}
	}
	for name, test := range map[string]struct {
		names []string
		want  bool
	}{"gRPC": {[]string{"l"}, true}, "Envoy": {nil, false}} {
		m := New(Options{Mode: SotW})
		m.Step(
			Ready{
				Resources: NewResourceSnapshot(
					map[string][]*ResourceGroup{
						api.ClusterType:  group(cluster),
						api.ListenerType: group(listener, other),
					},
					nil,
				),
			},
		)
		for _, a := range m.Step(Request{TypeURL: api.ListenerType, Names: test.names}) {
			if s, ok := a.(Send); ok {
				m.Step(Sent{})
				m.Step(Request{TypeURL: api.ListenerType, Names: test.names, Nonce: s.Nonce, Version: "1"})
			}
		}
		if got := m.HasAcked(listener); !got {
			t.Errorf("%s has no listener", name)
		}
		if got := m.HasAcked(cluster); got != test.want {
			t.Errorf("%s: got %v, want the cluster to be missing", name, got)
		}
		if got := m.AckedAll(); got != test.want {
			t.Errorf("%s: got %v, want nothing missing", name, got)
		}
	}
}
