package explain

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// Response bodies of Envoy for missing and invalid tokens.
var (
	//nolint:staticcheck // Envoy's words
	errMissing = errors.New("Jwt is missing")
	//nolint:staticcheck // Envoy's words
	errForm = errors.New("Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections")
	//nolint:staticcheck // Envoy's words
	errIssuer = errors.New("Jwt issuer is not configured")
	//nolint:staticcheck // Envoy's words
	errExpired = errors.New("Jwt is expired")
	//nolint:staticcheck // Envoy's words
	errEarly = errors.New("Jwt not yet valid")
	//nolint:staticcheck // Envoy's words
	errAudience = errors.New("Audiences in Jwt are not allowed")
	//nolint:staticcheck // Envoy's words
	errSignature = errors.New("Jwt verification fails")
	//nolint:staticcheck // Envoy's words
	errKeys = errors.New("Jwks doesn't have key to match kid or alg from Jwt")
	//nolint:staticcheck // Envoy's words
	errRemote = errors.New("Jwks remote fetch is failed")
)

// errUnknownProvider reports a requirement of a provider that the filter does not have.
var errUnknownProvider = errors.New("a requirement names an unknown provider")

// clockSkew is the default for JwtProvider.clock_skew_seconds.
const clockSkew = 60 * time.Second

// token is a parsed token of a request, or assumed claims.
type token struct {
	// text is the encoded token; "" for assumed claims.
	text   string
	claims *structpb.Struct
	// taken is set if the claims are assumed to be valid.
	taken bool
}

// readToken parses a token without verifying its signature. It returns an error, in Envoy's words,
// if it does not have three parts or its payload is not a JSON object in base64.
func readToken(text string) (token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return token{}, errForm
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return token{}, errors.New("Jwt payload is an invalid Base64 or JSON") //nolint:staticcheck // Envoy's words
	}
	t := token{text: text, claims: new(structpb.Struct)}
	if err := t.claims.UnmarshalJSON(payload); err != nil {
		return token{}, errors.New("Jwt payload is an invalid JSON") //nolint:staticcheck // Envoy's words
	}
	return t, nil
}

// issuer returns the claim iss, or "".
func (t token) issuer() string { return t.claims.GetFields()["iss"].GetStringValue() }

// audiences returns the values of the claim aud, a string or a list, each as bareAudience. It has
// an empty element if aud is a list or missing.
func (t token) audiences() []string {
	v := t.claims.GetFields()["aud"]
	list := []string{bareAudience(v.GetStringValue())}
	for _, one := range v.GetListValue().GetValues() {
		list = append(list, bareAudience(one.GetStringValue()))
	}
	return list
}

// bareAudience returns an audience without its scheme and the slash at its end.
func bareAudience(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")
	return strings.TrimSuffix(text, "/")
}

// verifyClaims checks issuer, lifetime, audience and signature against a provider, in this order,
// and returns the error of the first that fails. Without an issuer or audiences, the provider
// accepts any. at is the current time; if zero, the lifetime is not checked. A taken token (assumed
// by the call) has no signature to check; errRemote reports keys that are fetched remotely.
func (t token) verifyClaims(p *jwtauthnv3.JwtProvider, at time.Time) error {
	if p.GetIssuer() != "" && t.issuer() != p.GetIssuer() {
		return errIssuer
	}
	if err := t.checkLifetime(p, at); err != nil {
		return err
	}
	if len(p.GetAudiences()) > 0 &&
		!slices.ContainsFunc(
			p.GetAudiences(),
			func(a string) bool { return slices.Contains(t.audiences(), bareAudience(a)) },
		) {
		return errAudience
	}
	if t.taken {
		return nil
	}
	if p.GetRemoteJwks() != nil {
		return errRemote
	}
	return t.verifySignature(dataText(p.GetLocalJwks()))
}

// checkLifetime returns errExpired if the token's claim exp is before the time at, errEarly if nbf
// is after it, and otherwise nil. It allows for the provider's clock skew, by default clockSkew. A
// missing claim is not checked, and nothing is if at is zero.
func (t token) checkLifetime(p *jwtauthnv3.JwtProvider, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	skew := time.Duration(p.GetClockSkewSeconds()) * time.Second
	if skew == 0 {
		skew = clockSkew
	}
	if v, ok := t.claims.GetFields()["exp"]; ok && at.Unix() > int64(v.GetNumberValue())+int64(skew.Seconds()) {
		return errExpired
	}
	if v, ok := t.claims.GetFields()["nbf"]; ok && at.Unix() < int64(v.GetNumberValue())-int64(skew.Seconds()) {
		return errEarly
	}
	return nil
}

// verifySignature verifies the signature with a JSON Web Key Set (JWKS, RFC 7517). It tries all
// keys whose ID and algorithm do not differ from the token's. It returns errKeys if there are none
// or the set is invalid, errForm for an invalid token, else errSignature.
func (t token) verifySignature(keys string) error {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(keys), &set); err != nil {
		return errKeys
	}
	s, err := jose.ParseSignedCompact(t.text, []jose.SignatureAlgorithm{
		jose.RS256,
		jose.RS384,
		jose.RS512,
		jose.PS256,
		jose.PS384,
		jose.PS512,
		jose.ES256,
		jose.ES384,
		jose.ES512,
		jose.EdDSA,
		jose.HS256,
		jose.HS384,
		jose.HS512,
	})
	if err != nil {
		return errForm
	}
	header := s.Signatures[0].Header
	fitting := slices.DeleteFunc(slices.Clone(set.Keys), func(k jose.JSONWebKey) bool {
		return header.KeyID != "" && k.KeyID != "" && k.KeyID != header.KeyID ||
			k.Algorithm != "" && k.Algorithm != header.Algorithm
	})
	if len(fitting) == 0 {
		return errKeys
	}
	for _, k := range fitting {
		if _, err := s.Verify(k.Key); err == nil {
			return nil
		}
	}
	return errSignature
}
