package localmesh

import (
	"fmt"
	"io"
	"strings"
	"syscall"
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

// TestNextStep: the error of a request to a mesh that does not run, or that ended before it
// answered, has the next step.
func TestNextStep(t *testing.T) {
	reset := fmt.Errorf("%w: %w", control.ErrEnded, syscall.ECONNRESET)
	refused := fmt.Errorf("%w (directory)", control.ErrNotRunning)
	check := func(err error, dir, want string) {
		t.Helper()
		if got := explainNotRunning(dir, err); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%v becomes %v, want an error with %q", err, got, want)
		}
	}
	dir := t.TempDir()
	check(refused, dir, "pilotctl mesh up starts one")
	check(reset, dir, "the mesh has ended: connection reset")
	check(io.ErrUnexpectedEOF, dir, "unexpected EOF")
	lock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	check(refused, dir, "is starting or ending")
	check(reset, dir, "is starting or ending")
	lock.Close()
	check(refused, dir, "was killed: pilotctl mesh down removes its files")
	check(reset, dir, "was killed: pilotctl mesh down removes its files")
	if err := explainNotRunning(dir, nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}
