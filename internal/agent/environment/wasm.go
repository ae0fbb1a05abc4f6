package environment

import (
	"strings"
	"time"
)

// Wasm is how modules of extensions are fetched.
type Wasm struct {
	// Insecure are registries that are asked without TLS (WASM_INSECURE_REGISTRIES, separated by commas).
	Insecure []string
	// Expiry is how long an unused module is kept (WASM_MODULE_EXPIRY, 24h), Purge how often that is looked at
	// (WASM_PURGE_INTERVAL, 1h).
	Expiry, Purge time.Duration
	// Timeout bounds a module's fetching (WASM_HTTP_REQUEST_TIMEOUT, 15s), Retries how often a web server is asked again
	// (WASM_HTTP_REQUEST_MAX_RETRIES, 5).
	Timeout time.Duration
	Retries int
}

func (r *reader) wasm() Wasm {
	w := Wasm{
		Expiry: r.duration("WASM_MODULE_EXPIRY", 24*time.Hour), Purge: r.duration("WASM_PURGE_INTERVAL", time.Hour),
		Timeout: r.duration("WASM_HTTP_REQUEST_TIMEOUT", 15*time.Second), Retries: int(r.number("WASM_HTTP_REQUEST_MAX_RETRIES", 5)),
	}
	if w.Purge == 0 {
		r.fail("WASM_PURGE_INTERVAL", "must be more than 0")
	}
	for host := range strings.SplitSeq(r.vars["WASM_INSECURE_REGISTRIES"], ",") {
		if host = strings.TrimSpace(host); host != "" {
			w.Insecure = append(w.Insecure, host)
		}
	}
	return w
}
