package environment

import (
	"strings"
	"time"
)

// Wasm configures how the agent fetches modules of extensions.
type Wasm struct {
	// InsecureRegistries are registries that may be without TLS, and web servers, whose certificates
	// are not verified; "*" is every host (WASM_INSECURE_REGISTRIES, comma-separated).
	InsecureRegistries []string
	// Expiry is how long an unused module is cached (WASM_MODULE_EXPIRY, default 24h).
	// PurgeInterval is how often expired modules are evicted (WASM_PURGE_INTERVAL, default 1h).
	Expiry, PurgeInterval time.Duration
	// Timeout bounds each fetch of a module (WASM_HTTP_REQUEST_TIMEOUT, default 15s). Retries is
	// how often a failed HTTP request is retried (WASM_HTTP_REQUEST_MAX_RETRIES, default 5).
	Timeout time.Duration
	Retries int
}

// readWasm returns the settings of Wasm modules. By default modules expire after 24 h and are
// purged every hour, and a fetch takes at most 15 s with 5 retries. Durations that are 0 or invalid
// have their defaults.
func (r *reader) readWasm() Wasm {
	w := Wasm{
		Expiry:        r.readPositiveDuration("WASM_MODULE_EXPIRY", 24*time.Hour),
		PurgeInterval: r.readPositiveDuration("WASM_PURGE_INTERVAL", time.Hour),
		Timeout:       r.readPositiveDuration("WASM_HTTP_REQUEST_TIMEOUT", 15*time.Second),
		Retries:       int(r.readUint32("WASM_HTTP_REQUEST_MAX_RETRIES", 5)),
	}
	for host := range strings.SplitSeq(r.vars["WASM_INSECURE_REGISTRIES"], ",") {
		if host = strings.TrimSpace(host); host != "" {
			w.InsecureRegistries = append(w.InsecureRegistries, host)
		}
	}
	return w
}
