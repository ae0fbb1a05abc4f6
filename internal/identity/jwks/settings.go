package jwks

import (
	"net/netip"
	"time"
)

// Settings configure how the keys of token issuers are fetched for RequestAuthentication.
type Settings struct {
	// Refresh is the interval at which keys are fetched; 0 is 20 min
	// (PILOT_JWT_PUB_KEY_REFRESH_INTERVAL).
	Refresh time.Duration
	// Blocked are networks from which nothing is fetched, besides the networks that are always
	// blocked (BLOCKED_CIDRS_IN_JWKS_URIS).
	Blocked []netip.Prefix
	// Loopback allows keys to be fetched from the control plane's own machine, as in a mesh on a
	// laptop (default false; MESHPILOT_JWKS_LOOPBACK).
	Loopback bool
	// AcceptAnyCertificate accepts any server certificate (default false;
	// JWKS_RESOLVER_INSECURE_SKIP_VERIFY).
	AcceptAnyCertificate bool
	// RootsFile is a file with roots that are trusted besides the system's. A missing file is
	// ignored.
	RootsFile string
}

// DefaultSettings returns the defaults. RootsFile is the path where Istio's chart mounts
// jwksResolverExtraRootCA.
func DefaultSettings() Settings {
	return Settings{Refresh: defaultRefresh, RootsFile: "/cacerts/extra.pem"}
}
