package cli

import "testing"

// TestHostPort formats addresses of endpoints as callers would write them.
func TestHostPort(t *testing.T) {
	for want, at := range map[string]struct {
		address string
		port    uint32
	}{
		"10.1.0.1:80":          {"10.1.0.1", 80},
		"[2001:db8::1]:80":     {"2001:db8::1", 80},
		"vm.example.com:80":    {"vm.example.com", 80},
		"unix:///tmp/web.sock": {"unix:///tmp/web.sock", 0},
	} {
		if got := hostPort(at.address, at.port); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}
