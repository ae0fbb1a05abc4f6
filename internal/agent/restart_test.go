package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
)

// TestReplacementWithoutEnvoy requests a replacement from an agent that runs no Envoy
// (DISABLE_ENVOY), as a changed bootstrap file does with hot restart: there is nothing to replace.
func TestReplacementWithoutEnvoy(t *testing.T) {
	t.Parallel()
	a := &agent{}
	a.startReplacement(t.Context())
	if a.next != nil || a.restartAgain {
		t.Error("an Envoy was started")
	}
}

// TestReplacementAfterCrash requests a replacement while another one starts, and the active Envoy
// crashes then: the requested one follows once the Envoy that starts is live.
func TestReplacementAfterCrash(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	o := options(t, "binaryPath: "+program, "MESHPILOT_HOT_RESTART=true")
	if err := os.WriteFile(o.baseIDFile(), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(o)
	defer a.admin.Close()
	old, starting := &envoyRun{process: new(envoy.Process)}, &envoyRun{process: new(envoy.Process), epoch: 1}
	a.current, a.next = old, starting
	a.startReplacement(t.Context())
	if err := a.handleExit(old); err != nil || a.current != starting || a.next != nil {
		t.Fatalf("after the exit: %v, active: %+v, next: %+v", err, a.current, a.next)
	}
	a.completeHandover(t.Context(), handover{0}) // of an earlier replacement
	if a.next != nil {
		t.Fatal("a replacement was started too early")
	}
	a.completeHandover(t.Context(), handover{1})
	if a.current != starting || len(a.older) != 0 || a.next == nil || a.next.epoch != 2 || a.restartAgain {
		t.Fatalf("after the handover: active %+v, next %+v, older %v", a.current, a.next, a.older)
	}
	<-a.exited // of the program, which ends at once
}
