package mesh

import "net/url"

// KeySource says where an issuer of tokens publishes its keys (security.istio.io, JWTRule). Exactly one field is set.
type KeySource struct {
	// URI is that of the keys (jwksUri).
	URI string
	// Issuer is whose discovery document says where they are (OpenID Connect Discovery 1.0, section 4).
	Issuer string
}

// String is for people. A password in the address is not.
func (s KeySource) String() string {
	if u, err := url.Parse(s.URI); err == nil && u.User != nil {
		return u.Redacted()
	}
	if s.URI != "" {
		return s.URI
	}
	return s.Issuer + " (discovery)"
}

// KeySet is what is known of the keys of a source.
type KeySet struct {
	Source KeySource
	// Text is the newest good keys as a JSON Web Key Set in canonical form, public ones only; "": none were ever got.
	Text string
	// Fault says why it is not known whether those are the newest, "" if it is.
	Fault string
}
