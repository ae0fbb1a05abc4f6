package stream

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestNackMessagesAreBounded: a client's error message of 1 MiB is truncated to 4 KiB, with a mark,
// in the action and in the state. A resource that is named beyond the limit is still found.
func TestNackMessagesAreBounded(t *testing.T) {
	r := resource.FromBytes("beyond", api.ListenerType, []byte("l"))
	other := resource.FromBytes("another", api.ListenerType, []byte("l"))
	set, err := resource.NewSet([]*resource.Resource{r, other})
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{Mode: Delta})
	m.Step(
		Ready{
			Resources: NewResourceSnapshot(map[string][]*ResourceGroup{api.ListenerType: {NewResourceGroup(set)}}, nil),
		},
	)
	var nonce string
	for _, a := range m.Step(Request{TypeURL: api.ListenerType}) {
		if s, ok := a.(Send); ok {
			nonce = s.Nonce
		}
	}
	m.Step(Sent{})
	message := "Error adding/updating listener(s) " + strings.Repeat("x", 100<<10) +
		" beyond: why\n" + strings.Repeat("ä", 1<<19)
	found := false
	for _, a := range m.Step(Request{TypeURL: api.ListenerType, Nonce: nonce, Rejected: true, Message: message}) {
		n, ok := a.(Nack)
		if !ok {
			continue
		}
		found = true
		if len(n.Message) > MaxNackMessage || !strings.HasSuffix(n.Message, " bytes cut]") {
			t.Errorf("the NACK has a message of %d bytes: …%.60q", len(n.Message),
				n.Message[max(0, len(n.Message)-60):])
		}
		if len(n.Resources) != 1 || n.Resources[0].Name != "beyond" {
			t.Errorf("refused resources %v", n.Resources)
		}
	}
	if !found {
		t.Fatal("no NACK")
	}
	for _, s := range m.State() {
		if len(s.Message) > MaxNackMessage {
			t.Errorf("the state of %s has a message of %d bytes", s.TypeURL, len(s.Message))
		}
	}
}
