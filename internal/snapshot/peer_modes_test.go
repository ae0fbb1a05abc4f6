package snapshot

import (
	"testing"

	security "istio.io/api/security/v1beta1"
)

// TestBetween: during a transition between modes a workload accepts what either mode accepts, and
// at ports for which neither sets a mode nothing more.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		was, is, between string
		alike            bool // to callers
	}{
		{"PERMISSIVE", "STRICT", "PERMISSIVE", true},
		{"STRICT", "DISABLE", "PERMISSIVE", false},
		{"STRICT", "STRICT", "STRICT", true},
		{"STRICT", "STRICT 8080=DISABLE", "STRICT 8080=PERMISSIVE", false},
		{"STRICT 8080=DISABLE", "STRICT 8080=DISABLE 9090=PERMISSIVE", "STRICT 8080=DISABLE 9090=PERMISSIVE", true},
		{"DISABLE 8080=STRICT", "STRICT", "PERMISSIVE 8080=STRICT", false},
	} {
		was, is := TransitionModes(c.was).modes(), TransitionModes(c.is).modes()
		if got := was.Between(is).Text(); got != TransitionModes(c.between) {
			t.Errorf("between %q and %q is %q, want %q", c.was, c.is, got, c.between)
		}
		if got := was.CalledAlike(is); got != c.alike {
			t.Errorf("%q and %q are called in the same way: %t", c.was, c.is, got)
		}
		if got := was.Same(is); got != (c.was == c.is) {
			t.Errorf("%q and %q are the same: %t", c.was, c.is, got)
		}
	}
	plain := PeerModes{Mode: security.PeerAuthentication_MutualTLS_STRICT}
	if got := plain.With(""); got.Mode != plain.Mode {
		t.Errorf("without transition modes: %v", got.Mode)
	}
	if got := plain.With("PERMISSIVE"); got.Mode != security.PeerAuthentication_MutualTLS_PERMISSIVE {
		t.Errorf("with transition modes: %v", got.Mode)
	}
}
