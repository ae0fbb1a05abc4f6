package mesh

// KeySource says where an issuer of tokens publishes its keys (security.istio.io, JWTRule). Exactly one field is set.
type KeySource struct {
	// URI is that of the keys (jwksUri).
	URI string
	// Issuer is whose discovery document says where they are (OpenID Connect Discovery 1.0, section 4).
	Issuer string
}

// String is for people.
func (s KeySource) String() string {
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
