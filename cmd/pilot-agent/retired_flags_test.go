package main

import (
	"fmt"
	"testing"
)

// TestRetiredDiscoveryAddress tests that with the command line of Istio 1.0 the agent connects to
// the control plane in its flag, and the proxy becomes ready. Nothing listens at the address of
// PROXY_CONFIG.
func TestRetiredDiscoveryAddress(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{args: []string{
		"--discoveryAddress", localControlPlane(t), "--controlPlaneAuthPolicy", "NONE", "--discoveryRefreshDelay", "1s",
		"--parentShutdownDuration", "1m0s", "--connectTimeout", "10s", "--drainDuration", "45s",
	}})
	url := fmt.Sprintf("http://localhost:%d/healthz/ready", a.ready)
	if status, out, errs := pilotAgent(t, nil, "wait", "--periodMillis", "10", "--url", url); status != 0 {
		t.Errorf("status %d, output %q, errors %q", status, out, errs)
	}
	a.awaitLog(t, "flag --parentShutdownDuration is retired and has no effect")
}
