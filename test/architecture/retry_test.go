package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// doubling matches the computation of a delay that doubles.
var doubling = regexp.MustCompile(`min\((max\()?2 ?\* ?[\w.]+|(?i)(backoff|delay|retry|pause|wait|interval)\w* ?(\*= 2|<< ?[(\w]|= 2 ?\* ?\w*(backoff|delay|retry|pause|wait|interval))`)

// TestDelaysComeFromTheLibrary: loops that repeat failed attempts use base/retry and not a doubling of their own. The files below have
// times that double as state, without an attempt of their own (ADR 1).
func TestDelaysComeFromTheLibrary(t *testing.T) {
	state := map[string]bool{
		"internal/agent/restart.go":                false, // by the number of failed restarts of Envoy, which limits them too
		"internal/identity/ca/conflict_backoff.go": false, // by the number of another program's writes
		"internal/snapshot/refused_events.go":      false, // of an event, until it is tried with another
		"internal/xds/quarantine/scope.go":         false, // of a resource that proxies reject
		"internal/xds/server/recover.go":           false, // of a proxy that may not connect yet
	}
	for _, path := range shipped(t) {
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		found := doubling.FindString(string(text))
		if _, known := state[path]; known {
			state[path] = found != ""
		} else if found != "" {
			t.Errorf("%s doubles a delay itself (%q): use retry.NewBackoff", path, found)
		}
	}
	for path, found := range state {
		if !found {
			t.Errorf("%s doubles no delay any longer: remove it from this test", path)
		}
	}
}
