package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// checkRequestAuthentication adds Errors for an invalid attachment, more than 4096 rules, and
// invalid rules. The checks of the attachment (checkAttachment) and of each rule (checkJWTRule)
// also add Warnings.
func (r *report) checkRequestAuthentication(at path, policy *security.RequestAuthentication) {
	r.checkAttachment(at, attachment{policy.GetSelector(), policy.GetTargetRef(), policy.GetTargetRefs()})
	r.checkMaxItems(at.Child("jwtRules"), len(policy.GetJwtRules()), 4096)
	for i, rule := range policy.GetJwtRules() {
		r.checkJWTRule(at.Child("jwtRules").Index(i), rule)
	}
}

// checkJWTRule adds Errors for a rule without issuer and jwksUri, with both jwks and jwksUri, or
// with an invalid URL, key set or timeout. Empty items of its lists, more than 64
// spaceDelimitedClaims, and invalid headers to read tokens from or copy them to, are Errors too. A
// private key in jwks, and two outputs to one header (checkTokenOutputs), are Warnings.
func (r *report) checkJWTRule(at path, rule *security.JWTRule) {
	for _, list := range []namedValues{
		{"audiences", rule.GetAudiences()}, {"fromParams", rule.GetFromParams()},
		{"fromCookies", rule.GetFromCookies()},
		{"spaceDelimitedClaims", rule.GetSpaceDelimitedClaims()},
	} {
		for i, value := range list.values {
			r.requireValue(at.Child(list.name).Index(i), value)
		}
	}
	r.checkMaxItems(at.Child("spaceDelimitedClaims"), len(rule.GetSpaceDelimitedClaims()), 64)
	if rule.GetIssuer() == "" && rule.GetJwksUri() == "" {
		r.errorf(at.Child("issuer"), "is required, unless jwksUri is set")
	}
	if uri := rule.GetJwksUri(); uri != "" {
		r.addFault(at.Child("jwksUri"), httpURLFault(uri))
		if rule.GetJwks() != "" {
			r.errorf(at.Child("jwks"), "must not be set together with jwksUri")
		}
	}
	if rule.GetJwks() != "" {
		if fault := keySetFault(rule.GetJwks()); fault != "" {
			r.addFault(at.Child("jwks"), fault)
		} else if hasPrivateHalf(rule.GetJwks()) {
			r.warnf(
				at.Child("jwks"),
				"contains a private key: everyone who can read this object can sign tokens; tokens are validated with the public key",
			)
		}
	}
	for i, header := range rule.GetFromHeaders() {
		here := at.Child("fromHeaders").Index(i)
		r.addFault(here.Child("name"), fieldNameFault(header.GetName()))
		if strings.ContainsAny(header.GetPrefix(), "\x00\r\n") {
			r.errorf(here.Child("prefix"), "is not a valid prefix of a header")
		}
	}
	r.checkTokenOutputs(at, rule)
	r.checkDuration(at.Child("timeout"), rule.GetTimeout())
}

// checkTokenOutputs adds Errors for invalid headers to which tokens and claims are copied, and for
// a header without a claim. Outputs to the same header, in any case, are a Warning.
func (r *report) checkTokenOutputs(at path, rule *security.JWTRule) {
	taken := map[string]bool{}
	output := func(here path, header string) {
		r.addFault(here, fieldNameFault(header))
		if name := strings.ToLower(header); taken[name] {
			r.warnf(here, "%q is set twice: which value it has is not defined", header)
		} else {
			taken[name] = true
		}
	}
	if header := rule.GetOutputPayloadToHeader(); header != "" {
		output(at.Child("outputPayloadToHeader"), header)
	}
	for i, claim := range rule.GetOutputClaimToHeaders() {
		here := at.Child("outputClaimToHeaders").Index(i)
		output(here.Child("header"), claim.GetHeader())
		r.requireValue(here.Child("claim"), claim.GetClaim())
	}
}

// fieldNameFault returns why a header can neither contain a token nor receive its content, or "" if
// it can. Pseudo-headers of HTTP/2 and Host are refused, because they determine where a request is
// sent.
func fieldNameFault(name string) string {
	if strings.HasPrefix(name, ":") || strings.EqualFold(name, "host") {
		return fmt.Sprintf("%q is not a header of its own", name)
	}
	return HeaderNameFault(name)
}

// hasPrivateHalf reports whether a key set, or a single key, contains a private key: the member "d"
// (RFC 7518, section 6). It returns false for text that is no JSON, and for symmetric keys.
func hasPrivateHalf(text string) bool {
	var set struct {
		Keys []map[string]any `json:"keys"`
		D    any              `json:"d"`
	}
	if json.Unmarshal([]byte(text), &set) != nil {
		return false
	}
	return set.D != nil || slices.ContainsFunc(set.Keys, func(k map[string]any) bool { return k["d"] != nil })
}

// httpURLFault returns why text is not an HTTP or HTTPS URL with a host and at most 2048 bytes, or
// "" if it is. The scheme may be in any case.
func httpURLFault(text string) string {
	const maxURL = 2048
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), maxURL)
	case err != nil:
		return fmt.Sprintf("is not a URL: %v", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Sprintf("%q must be an http or https URL", text)
	default:
		return ""
	}
}

// keySetFault returns why text is not a JSON Web Key Set (RFC 7517) or a single key, or "" if it
// is. Each key must have the type RSA, EC, OKP or oct, and its required members (RFC 7518, section
// 6). An empty list of keys is valid.
func keySetFault(text string) string {
	var set map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return fmt.Sprintf("is not a JSON Web Key Set: %v", err)
	}
	keys := []map[string]any{{}}
	err := json.Unmarshal([]byte(text), &keys[0])
	if list, there := set["keys"]; there {
		err = json.Unmarshal(list, &keys)
	}
	if err != nil {
		return fmt.Sprintf("is not a JSON Web Key Set: %v", err)
	}
	members := map[string][]string{"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}, "oct": {"k"}}
	for i, key := range keys {
		kind, _ := key["kty"].(string)
		required, known := members[kind]
		if !known {
			return fmt.Sprintf("is not a JSON Web Key Set: key %d has the unknown type %q", i, kind)
		}
		for _, member := range required {
			if value, _ := key[member].(string); value == "" {
				return fmt.Sprintf("is not a JSON Web Key Set: key %d of type %s has no %q", i, kind, member)
			}
		}
	}
	return ""
}
