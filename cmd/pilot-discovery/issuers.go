package main

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// applyIssuers reads the settings for fetching the keys of token issuers (JWKS). It sets
// f.KeyFetching to whether the control plane (the default), proxies or both fetch them.
// BLOCKED_CIDRS_IN_JWKS_URIS adds to o.Blocked; unset booleans are false. The first invalid value
// is recorded in e.err.
func (e *environment) applyIssuers(o *jwks.Settings, f *snapshot.Features) {
	e.setDuration("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", &o.Refresh)
	if o.Refresh < 0 {
		e.addError("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", o.Refresh.String(), "want a duration that is not negative")
	}
	o.AcceptAnyCertificate = e.boolOr("JWKS_RESOLVER_INSECURE_SKIP_VERIFY", false)
	o.Loopback = e.boolOr("MESHPILOT_JWKS_LOOPBACK", false)
	var blocked []string
	e.setList("BLOCKED_CIDRS_IN_JWKS_URIS", &blocked)
	for _, text := range blocked {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.addError("BLOCKED_CIDRS_IN_JWKS_URIS", text, "want ranges like 10.0.0.0/8")
			continue
		}
		o.Blocked = append(o.Blocked, p.Masked())
	}
	switch v, _ := e.lookup("PILOT_JWT_ENABLE_REMOTE_JWKS"); v {
	case "", "false", "istiod":
		f.KeyFetching = snapshot.FetchedByControlPlane
	case "true", "hybrid":
		f.KeyFetching = snapshot.FetchedByBoth
	case "envoy":
		f.KeyFetching = snapshot.FetchedByProxies
	default:
		e.addError("PILOT_JWT_ENABLE_REMOTE_JWKS", v, "want false, true, hybrid, istiod or envoy")
	}
}
