package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AuthorityMetrics are the metrics of the certificate authority.
type AuthorityMetrics struct {
	// Requests counts requests for certificates, Unauthenticated the requests of unauthenticated
	// callers, Issued the signed certificates.
	Requests, Unauthenticated, Issued prometheus.Counter
	// BadRequests counts requests with an invalid CSR, NoIdentity requests of callers without a
	// service account, Refused all other failed requests by reason.
	BadRequests, NoIdentity prometheus.Counter
	Refused                 *prometheus.CounterVec
	// BadMaterial counts the authority's own certificates and keys from outside that were invalid.
	BadMaterial prometheus.Counter

	expiry  func() (root, chain time.Time)
	serving func() time.Time
}

// Expiry sets the function that returns the expiry of the first root and of the signing chain. It
// is called at each scrape; a zero time is exported as 0. Until it is set, both are 0.
func (a *AuthorityMetrics) Expiry(of func() (root, chain time.Time)) { a.expiry = of }

// ServingExpiry sets the function that returns the expiry of the certificate of the TLS ports. It
// is called at each scrape; a zero time is exported as 0, and so is the metric until it is set.
func (a *AuthorityMetrics) ServingExpiry(of func() time.Time) { a.serving = of }

// registerIn registers the metrics of the certificate authority. It sets a.expiry and a.serving to
// functions without expiries; the gauges are 0 until these are replaced.
func (a *AuthorityMetrics) registerIn(t *metricTable) {
	a.expiry = func() (root, chain time.Time) { return root, chain }
	a.serving = func() time.Time { return time.Time{} }
	a.Requests = t.newCounter("citadel_server_csr_count", "Requests for certificates.")
	a.Unauthenticated = t.newCounter("citadel_server_authentication_failure_count",
		"Requests for certificates of unauthenticated callers.")
	a.BadRequests = t.newCounter("citadel_server_csr_parsing_err_count",
		"Requests for certificates with an invalid signing request or an unsupported key.")
	a.NoIdentity = t.newCounter("citadel_server_id_extraction_err_count",
		"Requests for certificates of callers without a service account.")
	a.Refused = t.newCounterVec("citadel_server_csr_sign_err_count",
		"Requests for certificates that failed for other reasons, by reason.", "error")
	a.Issued = t.newCounter("citadel_server_success_cert_issuance_count", "Certificates signed.")
	a.BadMaterial = t.newCounter("meshpilot_ca_bad_files_total",
		"Invalid certificates and keys that were provided for the authority.")
	unix := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return float64(at.Unix())
	}
	left := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return time.Until(at).Seconds()
	}
	root := func() time.Time { r, _ := a.expiry(); return r }
	chain := func() time.Time { _, c := a.expiry(); return c }
	t.newGaugeFunc("citadel_server_root_cert_expiry_timestamp",
		"Expiry of the first root, in seconds since 1970.", func() float64 { return unix(root()) })
	t.newGaugeFunc("citadel_server_root_cert_expiry_seconds",
		"Seconds until the expiry of the first root.", func() float64 { return left(root()) })
	t.newGaugeFunc("citadel_server_cert_chain_expiry_timestamp",
		"Expiry of the signing chain, in seconds since 1970.", func() float64 { return unix(chain()) })
	t.newGaugeFunc("citadel_server_cert_chain_expiry_seconds",
		"Seconds until the expiry of the signing chain.", func() float64 { return left(chain()) })
	t.newGaugeFunc("meshpilot_serving_cert_expiry_timestamp",
		"Expiry of the certificate of the TLS ports, in seconds since 1970.",
		func() float64 { return unix(a.serving()) })
}
