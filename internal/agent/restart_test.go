package agent

import "testing"

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
