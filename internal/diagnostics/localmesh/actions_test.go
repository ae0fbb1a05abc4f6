package localmesh

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

// TestIncompleteRequests: a request without the arguments and descriptors of its action is refused.
func TestIncompleteRequests(t *testing.T) {
	s := &Supervisor{plane: new(component.ControlPlane), started: make(chan struct{})}
	handlers := s.handlers(t.Context())
	for action, want := range map[string]string{
		actionExec:    "there is no command",
		actionRun:     "running a program takes its path and 3 descriptors",
		actionForward: "forwarding takes an address",
		actionPublish: "publishing takes a listener",
	} {
		c := &control.Call{Request: control.Request{Action: action, Node: controlPlaneName, Spec: []byte("{}")}}
		if _, err := handlers[action](t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", action, err, want)
		}
	}
}
