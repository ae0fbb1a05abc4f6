package identity

import "testing"

// TestIdentity plays all scenes in one mesh, each of which leaves it as it was.
func TestIdentity(t *testing.T) {
	w := startWorld(t)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"nothing is in the clear on the wire", onTheWire},
		{"who calls is known by name", byName},
		{"what clients offer says what comes", offers},
		{"what is offered follows the HTTP version of an EnvoyFilter", httpVersions},
		{"strangers are refused under STRICT", strangers},
		{"an authority vouches for its own trust domain", partners},
		{"a policy holds at once and cuts nobody off", policies},
		{"roots rotate, and the authority is away", rotation},
	} {
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, w) }) {
			t.FailNow() // what comes after would find another mesh than it expects
		}
	}
}
