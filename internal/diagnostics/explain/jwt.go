package explain

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	tokenFilter  = "envoy.filters.http.jwt_authn"
	tokenDetails = "jwt_authn_access_denied"
)

// authentication is the evaluation of a jwt_authn filter for one request.
type authentication struct {
	*exchange
	filter *jwtauthnv3.JwtAuthentication
	// good are the valid tokens by provider.
	good map[string]token
}

// evaluateJWT evaluates a jwt_authn filter, applies all valid tokens and adds steps. If a required
// token is missing or invalid, it returns a 401 ending, or 403 for another audience (localReply).
// Otherwise it returns the endings of a repeated route lookup, or nil. For a bypassed CORS
// preflight, and if no rule requires a token, nothing is checked and it returns nil. Providers that
// fetch their keys remotely, and unknown ones, are unsupported.
func (x *exchange) evaluateJWT(name string, f *jwtauthnv3.JwtAuthentication) []Ending {
	if f.GetBypassCorsPreflight() && x.request.Method == http.MethodOptions &&
		len(x.request.Values("access-control-request-method")) > 0 {
		return nil
	}
	r, found, err := x.matchRequirement(f)
	if err != nil {
		return x.endUnsupported(name, "%v", err)
	}
	if !found {
		x.addNote(StageAccess, name, "no rule requires a token for this request")
		return nil
	}
	a := &authentication{x, f, map[string]token{}}
	err = a.checkRequirement(r)
	if errors.Is(err, errRemote) {
		return x.endUnsupported(name, "the proxy fetches the JWKS itself, so the keys are not known here")
	}
	if errors.Is(err, errUnknownProvider) {
		return x.endUnsupported(name, "%v", err)
	}
	a.applyTokens()
	if err == nil {
		a.addTokenSteps(name)
		return a.repeatRouteLookup(name)
	}
	status := http.StatusUnauthorized
	if errors.Is(err, errAudience) { // valid, but for another audience
		status = http.StatusForbidden
	}
	x.addStep(
		Step{Stage: StageAccess, Resource: name, Matched: err.Error(), Decided: "refused: " + http.StatusText(status)},
	)
	e := x.localReply(status, err.Error(), "no valid token")
	e.Details = tokenDetails + "{" + strings.ReplaceAll(err.Error(), " ", "_") + "}"
	return []Ending{e}
}

// repeatRouteLookup repeats the route lookup if the provider of a valid token sets
// clear_route_cache, because routes may match claims. It returns the endings of the lookup, and nil
// if it is not repeated.
func (a *authentication) repeatRouteLookup(name string) []Ending {
	for provider := range a.good {
		if a.filter.GetProviders()[provider].GetClearRouteCache() {
			a.addNote(StageAccess, name, "routes may match claims of the token, so the route lookup is repeated")
			return a.lookupRoute(a.routes)
		}
	}
	return nil
}

// addTokenSteps adds a step for each valid token, or one step if the request has none. The tokens
// are named by issuer and subject, sorted by provider.
func (a *authentication) addTokenSteps(name string) {
	if len(a.good) == 0 {
		a.addNote(StageAccess, name, "the request has no token: continues without a request principal")
		return
	}
	for _, provider := range slices.Sorted(maps.Keys(a.good)) {
		claims := a.good[provider].claims.GetFields()
		a.addNote(
			StageAccess,
			name,
			"the token of %s/%s is valid: continues",
			claims["iss"].GetStringValue(),
			claims["sub"].GetStringValue(),
		)
	}
}

// matchRequirement returns the requirement of the first rule that matches the request; a rule
// without match matches all. found is false if no rule matches, or if that rule has no requirement
// or names an unknown requirement. The error reports an unsupported matcher.
func (x *exchange) matchRequirement(
	f *jwtauthnv3.JwtAuthentication,
) (r *jwtauthnv3.JwtRequirement, found bool, err error) {
	for _, rule := range f.GetRules() {
		match := rule.GetMatch()
		if match == nil {
			match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
		}
		ok, _, _, err := matchRoute(match, x.request)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		if rule.GetRequirementName() != "" {
			r, found = f.GetRequirementMap()[rule.GetRequirementName()]
			return r, found, nil
		}
		return rule.GetRequires(), rule.GetRequires() != nil, nil
	}
	return nil, false, nil
}

// checkRequirement verifies the tokens of the request against a requirement, and records valid ones
// in a.good, also if it then fails. It returns nil if the requirement is empty or fulfilled, which
// allow_missing_or_failed always is; allow_missing is fulfilled by a missing token, not by an
// invalid one. The error is errMissing, errIssuer, errAudience for another audience, errRemote for
// keys that are fetched remotely, errUnknownProvider, or another one for an invalid token.
// Unsupported requirements return an error of no type.
func (a *authentication) checkRequirement(r *jwtauthnv3.JwtRequirement) error {
	switch t := r.GetRequiresType().(type) {
	case nil:
		return nil
	case *jwtauthnv3.JwtRequirement_ProviderName:
		return a.verifyProvider(t.ProviderName, nil)
	case *jwtauthnv3.JwtRequirement_ProviderAndAudiences:
		return a.verifyProvider(t.ProviderAndAudiences.GetProviderName(), t.ProviderAndAudiences.GetAudiences())
	case *jwtauthnv3.JwtRequirement_RequiresAny:
		return a.checkAny(t.RequiresAny.GetRequirements())
	case *jwtauthnv3.JwtRequirement_RequiresAll:
		for _, one := range t.RequiresAll.GetRequirements() {
			if err := a.checkRequirement(one); err != nil {
				return err
			}
		}
		return nil
	case *jwtauthnv3.JwtRequirement_AllowMissing:
		return a.verifyAll()
	case *jwtauthnv3.JwtRequirement_AllowMissingOrFailed:
		_ = a.verifyAll()
		return nil
	default:
		return fmt.Errorf("the requirement %T is not supported", t)
	}
}

// checkAny returns nil if one of several requirements is fulfilled. Otherwise it returns the first
// error other than errMissing and errIssuer, or else the last one. The error of an empty list is
// nil.
func (a *authentication) checkAny(list []*jwtauthnv3.JwtRequirement) error {
	var wrong error
	for _, one := range list {
		err := a.checkRequirement(one)
		if err == nil {
			return nil
		}
		if wrong == nil || errors.Is(wrong, errMissing) || errors.Is(wrong, errIssuer) {
			wrong = err
		}
	}
	return wrong
}

// verifyProvider verifies all tokens in a provider's token locations, and the token that the call
// assumes, and records the last one in a.good. It returns errMissing if there are none, and the
// error of the first invalid one. audiences, if any, override the provider's. A provider that the
// filter does not have, with which Envoy refuses the filter, is an errUnknownProvider.
func (a *authentication) verifyProvider(name string, audiences []string) error {
	p := a.filter.GetProviders()[name]
	if p == nil {
		return fmt.Errorf("%w: %q", errUnknownProvider, name)
	}
	if len(audiences) > 0 {
		p = proto.CloneOf(p)
		p.Audiences = audiences
	}
	texts := a.requestTokens(p)
	own, claimed := a.assumedToken(p)
	if len(texts) == 0 && !claimed {
		return errMissing
	}
	if claimed {
		if err := own.verifyClaims(p, a.call.At); err != nil {
			return err
		}
		a.good[name] = own
	}
	for _, text := range texts {
		t, err := readToken(text)
		if err == nil {
			err = t.verifyClaims(p, a.call.At)
		}
		if err != nil {
			return err
		}
		a.good[name] = t
	}
	return nil
}

// assumedToken returns Call.Claims as an assumed token of provider p. Without an issuer it gets
// that of p. The second result is false if there are no claims, they cannot be represented in JSON,
// or their issuer is another one.
func (a *authentication) assumedToken(p *jwtauthnv3.JwtProvider) (token, bool) {
	if a.call.Claims == nil {
		return token{}, false
	}
	s, err := structpb.NewStruct(a.call.Claims)
	if err != nil {
		return token{}, false
	}
	if s.GetFields()["iss"] == nil {
		s.Fields["iss"] = structpb.NewStringValue(p.GetIssuer())
	}
	return token{claims: s, taken: true}, s.GetFields()["iss"].GetStringValue() == p.GetIssuer()
}

// verifyAll verifies the tokens in the locations of any provider and the assumed ones, each against
// the provider of its issuer, and records valid ones in a.good. It stops at the first error and
// returns it. It returns nil without tokens.
func (a *authentication) verifyAll() error {
	for _, name := range slices.Sorted(maps.Keys(a.filter.GetProviders())) {
		for _, text := range a.requestTokens(a.filter.GetProviders()[name]) {
			t, err := readToken(text)
			if err == nil {
				err = a.ofItsIssuer(t)
			}
			if err != nil {
				return err
			}
		}
		if own, ok := a.assumedToken(a.filter.GetProviders()[name]); ok {
			if err := a.ofItsIssuer(own); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofItsIssuer verifies a token with the first provider, by name, that has the token's issuer or
// none, and records a valid token for that provider. It returns errIssuer if there is no such
// provider, and otherwise the error of the verification.
func (a *authentication) ofItsIssuer(t token) error {
	for _, name := range slices.Sorted(maps.Keys(a.filter.GetProviders())) {
		p := a.filter.GetProviders()[name]
		if p.GetIssuer() != "" && p.GetIssuer() != t.issuer() {
			continue
		}
		err := t.verifyClaims(p, a.call.At)
		if err == nil {
			a.good[name] = t
		}
		return err
	}
	return errIssuer
}

// applyTokens applies the effects of the valid tokens in a.good to the request, and adds no step.
// It merges their claims into the dynamic metadata and sets headers with the payload and with
// claims. It removes the headers and query parameters of tokens that are not forwarded. Without
// valid tokens it does nothing.
func (a *authentication) applyTokens() {
	for _, name := range slices.Sorted(maps.Keys(a.good)) {
		p, t := a.filter.GetProviders()[name], a.good[name]
		if key := p.GetPayloadInMetadata(); key != "" {
			a.mergeMetadata(
				tokenFilter,
				&structpb.Struct{
					Fields: map[string]*structpb.Value{key: structpb.NewStructValue(normalizeClaims(t.claims, p))},
				},
			)
		}
		if p.GetForwardPayloadHeader() != "" && t.text != "" {
			a.request.setHeader(p.GetForwardPayloadHeader(), strings.Split(t.text, ".")[1])
		}
		for _, c := range p.GetClaimToHeaders() {
			if v, ok := claimAt(t.claims, c.GetClaimName()); ok {
				a.request.setHeader(c.GetHeaderName(), v)
			}
		}
		if !p.GetForward() {
			a.removeTokens(p)
		}
	}
}

// normalizeClaims returns a copy of claims with space-delimited claims split into lists
// (JwtProvider.normalize_payload_in_metadata). Claims that are not text stay as they are.
func normalizeClaims(claims *structpb.Struct, p *jwtauthnv3.JwtProvider) *structpb.Struct {
	out := proto.CloneOf(claims)
	for _, name := range p.GetNormalizePayloadInMetadata().GetSpaceDelimitedClaims() {
		if text, ok := out.GetFields()[name].GetKind().(*structpb.Value_StringValue); ok {
			list := new(structpb.ListValue)
			for word := range strings.FieldsSeq(text.StringValue) {
				list.Values = append(list.Values, structpb.NewStringValue(word))
			}
			out.Fields[name] = structpb.NewListValue(list)
		}
	}
	return out
}
