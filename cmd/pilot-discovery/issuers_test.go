package main

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestIssuersOfTheEnvironment: Istio's names, and all values that it takes.
func TestIssuersOfTheEnvironment(t *testing.T) {
	read := func(vars map[string]string) (jwks.Settings, snapshot.Features, error) {
		var o jwks.Settings
		var f snapshot.Features
		env := environment{lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }}
		env.applyIssuers(&o, &f)
		return o, f, env.err
	}
	for value, want := range map[string]snapshot.KeyFetching{
		"": "", "false": "", "istiod": "", "true": snapshot.FetchedByBoth, "hybrid": snapshot.FetchedByBoth, "envoy": snapshot.FetchedByProxies,
	} {
		if _, f, err := read(
			map[string]string{"PILOT_JWT_ENABLE_REMOTE_JWKS": value},
		); err != nil ||
			f.KeyFetching != want {
			t.Errorf("%q: %q, %v", value, f.KeyFetching, err)
		}
	}
	o, _, err := read(map[string]string{
		"PILOT_JWT_PUB_KEY_REFRESH_INTERVAL": "3m",
		"JWKS_RESOLVER_INSECURE_SKIP_VERIFY": "true",
		"MESHPILOT_JWKS_LOOPBACK":            "true",
		"BLOCKED_CIDRS_IN_JWKS_URIS":         "10.0.0.1/8, 2001:db8::/32",
	})
	blocked := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	if err != nil || o.Refresh != 3*time.Minute || !o.AcceptAnyCertificate || !o.Loopback || !slices.Equal(o.Blocked, blocked) {
		t.Errorf("%+v, %v", o, err)
	}
	for name, value := range map[string]string{
		"PILOT_JWT_ENABLE_REMOTE_JWKS": "perhaps", "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL": "-1s", "BLOCKED_CIDRS_IN_JWKS_URIS": "10.0.0.1",
		"JWKS_RESOLVER_INSECURE_SKIP_VERIFY": "perhaps",
	} {
		if _, _, err := read(map[string]string{name: value}); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
}
