package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AuthorityMetrics is what the certificate authority counts.
type AuthorityMetrics struct {
	// Requests are those for certificates, Unauthenticated those of nobody known, Issued the good ones.
	Requests, Unauthenticated, Issued prometheus.Counter
	// BadRequests are those whose signing request could not be used, NoIdentity those of callers that are no service account, Refused all
	// others that came to nothing, by why.
	BadRequests, NoIdentity prometheus.Counter
	Refused                 *prometheus.CounterVec
	// BadMaterial counts certificates and keys of the authority that were brought and could not be used.
	BadMaterial prometheus.Counter

	expiry func() (root, chain time.Time)
}

// Expiry has the ends of the root and of the signing chain asked for when somebody scrapes; a zero time counts as 0.
func (a *AuthorityMetrics) Expiry(of func() (root, chain time.Time)) { a.expiry = of }

func (a *AuthorityMetrics) register(t *metricTable) {
	a.expiry = func() (root, chain time.Time) { return root, chain }
	a.Requests = t.counter("citadel_server_csr_count", "Requests for certificates.")
	a.Unauthenticated = t.counter("citadel_server_authentication_failure_count", "Requests for certificates of callers who did not prove who they are.")
	a.BadRequests = t.counter("citadel_server_csr_parsing_err_count", "Requests for certificates that could not be read, or are for keys that are not signed for.")
	a.NoIdentity = t.counter("citadel_server_id_extraction_err_count", "Requests for certificates of callers that are no service account.")
	a.Refused = t.counters("citadel_server_csr_sign_err_count", "Requests for certificates that came to nothing, by why.", "error")
	a.Issued = t.counter("citadel_server_success_cert_issuance_count", "Certificates signed.")
	a.BadMaterial = t.counter("meshpilot_ca_bad_files_total", "Certificates and keys of the authority that were brought and could not be used.")
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
	t.gaugeFunc("citadel_server_root_cert_expiry_timestamp", "When the first of the roots ends, in seconds since 1970.", func() float64 { return unix(root()) })
	t.gaugeFunc("citadel_server_root_cert_expiry_seconds", "Seconds until the first of the roots ends.", func() float64 { return left(root()) })
	t.gaugeFunc("citadel_server_cert_chain_expiry_timestamp", "When the chain that certificates are signed with ends, in seconds since 1970.", func() float64 { return unix(chain()) })
	t.gaugeFunc("citadel_server_cert_chain_expiry_seconds", "Seconds until the chain that certificates are signed with ends.", func() float64 { return left(chain()) })
}
