package scorecard

import (
	"os"
	"testing"
)

// Environment variables that `make scorecard` sets for the tests that it runs.
const (
	// SizeVariable selects the size: "short" (the default), "hour" or "soak".
	SizeVariable = "MESHPILOT_SCORECARD_SIZE"
	// PeerVariable is the path of another control plane (istiod's pilot-discovery) that takes the
	// place of ours.
	PeerVariable = "MESHPILOT_SCORECARD_PEER"
)

// BySize returns the value for the selected size. Short is the size of `make test`: seconds, at
// most a minute. Hour is for a run of all checks that takes about an hour on two cores. Soak is for
// runs of many hours.
func BySize[T any](short, hour, soak T) T {
	switch os.Getenv(SizeVariable) {
	case "hour":
		return hour
	case "soak":
		return soak
	default:
		return short
	}
}

// Heavy skips a test unless `make scorecard` runs it, at whatever size. It is for tests whose short
// form is too expensive for `make test`.
func Heavy(t testing.TB) {
	t.Helper()
	if os.Getenv(SizeVariable) == "" {
		t.Skip("only `make scorecard` runs this test (" + SizeVariable + " is not set)")
	}
}

// Peer returns the path of the control plane to measure instead of ours, or "" for ours.
func Peer() string { return os.Getenv(PeerVariable) }
