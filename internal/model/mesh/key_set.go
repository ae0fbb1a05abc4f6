package mesh

import "net/url"

// KeySource is the location of a token issuer's keys (security.istio.io, JWTRule). Exactly one
// field is set.
type KeySource struct {
	// URI is the URL of the keys (jwksUri).
	URI string
	// Issuer is the issuer whose discovery document contains the URL (OpenID Connect Discovery 1.0,
	// section 4).
	Issuer string
}

// String returns the URI for logs, with the password redacted, or "ISSUER (discovery)" if there is
// no URI.
func (s KeySource) String() string {
	if u, err := url.Parse(s.URI); err == nil && u.User != nil {
		return u.Redacted()
	}
	if s.URI != "" {
		return s.URI
	}
	return s.Issuer + " (discovery)"
}

// KeySet contains the keys of a source, as last fetched.
type KeySet struct {
	Source KeySource
	// Text is the last valid JSON Web Key Set in canonical form, with public keys only; "" if none
	// has been fetched.
	Text string
	// Fault is the error of the last fetch, "" if it succeeded.
	Fault string
}
