package telemetry

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestEnableTracing shows MeshConfig.enableTracing, which is true unless it is set to false.
func TestEnableTracing(t *testing.T) {
	for settings, want := range map[string]bool{
		"{}":                   true,
		"enableTracing: true":  true,
		"enableTracing: false": false,
	} {
		v := fixture.New(t, nil, []byte(settings)).View(fixture.Proxy(t, nil))
		if got := NewTable().For(v).Client.Tracing != nil; got != want {
			t.Errorf("%s: spans %v, want %v", settings, got, want)
		}
	}
}
