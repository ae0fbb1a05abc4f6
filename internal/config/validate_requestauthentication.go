package config

import (
	"encoding/json"
	"fmt"
	"net/url"

	security "istio.io/api/security/v1beta1"
)

func (r *report) requestAuthentication(at path, policy *security.RequestAuthentication) {
	r.attachedTo(at, attachment{policy.GetSelector(), policy.GetTargetRef(), policy.GetTargetRefs()})
	r.maxItems(at.Child("jwtRules"), len(policy.GetJwtRules()), 4096)
	for i, rule := range policy.GetJwtRules() {
		r.jwtRule(at.Child("jwtRules").Index(i), rule)
	}
}

func (r *report) jwtRule(at path, rule *security.JWTRule) {
	for _, list := range []namedValues{
		{"audiences", rule.GetAudiences()}, {"fromParams", rule.GetFromParams()}, {"fromCookies", rule.GetFromCookies()},
		{"spaceDelimitedClaims", rule.GetSpaceDelimitedClaims()},
	} {
		for i, value := range list.values {
			r.required(at.Child(list.name).Index(i), value)
		}
	}
	r.maxItems(at.Child("spaceDelimitedClaims"), len(rule.GetSpaceDelimitedClaims()), 64)
	if uri := rule.GetJwksUri(); uri != "" {
		r.fault(at.Child("jwksUri"), httpURLFault(uri))
		if rule.GetJwks() != "" {
			r.errorf(at.Child("jwks"), "must not be set together with jwksUri")
		}
	}
	if rule.GetJwks() != "" {
		r.fault(at.Child("jwks"), keySetFault(rule.GetJwks()))
	}
	for i, header := range rule.GetFromHeaders() {
		r.fault(at.Child("fromHeaders").Index(i).Child("name"), headerNameFault(header.GetName()))
	}
	if header := rule.GetOutputPayloadToHeader(); header != "" {
		r.fault(at.Child("outputPayloadToHeader"), headerNameFault(header))
	}
	for i, output := range rule.GetOutputClaimToHeaders() {
		here := at.Child("outputClaimToHeaders").Index(i)
		r.fault(here.Child("header"), headerNameFault(output.GetHeader()))
		r.required(here.Child("claim"), output.GetClaim())
	}
	r.duration(at.Child("timeout"), rule.GetTimeout())
}

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

// keySetFault says why text is not a JSON Web Key Set (RFC 7517), or a single key, with the members that a public or
// symmetric key must have (RFC 7518, section 6).
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
