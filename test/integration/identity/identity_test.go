package identity

import "testing"

// TestIdentity plays all scenes in one mesh. Each scene restores the initial state.
func TestIdentity(t *testing.T) {
	w := startWorld(t)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"nothing is in the clear on the wire", onTheWire},
		{"the server knows the caller's identity", byName},
		{"ALPN distinguishes HTTP from other bytes", offers},
		{"ALPN follows the HTTP version of an EnvoyFilter", httpVersions},
		{"metrics keep what follows from a certificate", metricLabels},
		{"strangers are refused under STRICT", strangers},
		{"an authority vouches for its own trust domain", partners},
		{"a policy applies at once and closes no connection", policies},
		{"roots rotate, and the authority is away", rotation},
	} {
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, w) }) {
			t.FailNow() // later steps depend on this one
		}
	}
}
