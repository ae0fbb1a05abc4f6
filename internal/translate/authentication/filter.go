package authentication

import (
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	security "istio.io/api/security/v1beta1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// The values of istiod for keys that Envoy fetches.
const (
	fetchTimeout  = 5 * time.Second
	cacheDuration = 5 * time.Minute
)

// newFilters returns one jwt_authn filter that checks the tokens of requests on every path by all
// rules (newRequirement), or nil without rules. Requests without a token and CORS preflight
// requests pass. If routes is set, Envoy selects the route again after validation, because routes
// may match claims.
func newFilters(rules []Rule, routes bool) []*hcmv3.HttpFilter {
	if len(rules) == 0 {
		return nil
	}
	check := &jwtv3.JwtAuthentication{
		// Browsers send them without tokens.
		Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true,
		Rules: []*jwtv3.RequirementRule{{
			Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			RequirementType: &jwtv3.RequirementRule_Requires{Requires: newRequirement(len(rules))},
		}},
	}
	for i, r := range rules {
		check.Providers[providerName(i)] = newProvider(r, routes)
	}
	return []*hcmv3.HttpFilter{
		{Name: token.Filter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(check)}},
	}
}

// providerName returns the provider's name as in istiod, because EnvoyFilters may match it. It is
// "origins-" with the index.
func providerName(i int) string { return fmt.Sprintf("origins-%d", i) }

// newRequirement returns the requirement of requests for the providers with indexes 0 to n-1; n
// must be positive. A request passes if one provider accepts its token. It also passes if each
// provider either accepts the token or finds none where it looks.
func newRequirement(n int) *jwtv3.JwtRequirement {
	var accepted, each []*jwtv3.JwtRequirement
	for i := range n {
		one := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: providerName(i)}}
		accepted = append(accepted, one)
		each = append(
			each,
			anyOf(
				one,
				&jwtv3.JwtRequirement{
					RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: new(emptypb.Empty)},
				},
			),
		)
	}
	if n == 1 {
		return each[0]
	}
	return anyOf(append(accepted, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{
		RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: each},
	}})...)
}

// anyOf returns a requirement that is met if one of list is met.
func anyOf(list ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{
		RequiresType: &jwtv3.JwtRequirement_RequiresAny{RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: list}},
	}
}

// newProvider returns the jwt_authn provider of one rule: where tokens are found, how they are
// validated, forwarded and stored in metadata. Envoy fetches the keys through r.Cluster if that is
// set, otherwise they are inline. If both r.Cluster and r.Keys are "", it accepts no token. routes
// sets clear_route_cache.
func newProvider(r Rule, routes bool) *jwtv3.JwtProvider {
	s := r.Spec
	p := &jwtv3.JwtProvider{
		Issuer:      s.GetIssuer(),
		Audiences:   s.GetAudiences(),
		FromParams:  s.GetFromParams(),
		FromCookies: s.GetFromCookies(),
		Forward:     s.GetForwardOriginalToken(), ForwardPayloadHeader: s.GetOutputPayloadToHeader(),
		PayloadInMetadata:          token.Payload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{SpaceDelimitedClaims: spaceDelimited(s)},
		ClearRouteCache:            routes,
	}
	for _, h := range s.GetFromHeaders() {
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: h.GetName(), ValuePrefix: h.GetPrefix()})
	}
	for _, c := range s.GetOutputClaimToHeaders() {
		p.ClaimToHeaders = append(
			p.ClaimToHeaders,
			&jwtv3.JwtClaimToHeader{HeaderName: c.GetHeader(), ClaimName: c.GetClaim()},
		)
	}
	if r.Cluster != "" {
		p.JwksSourceSpecifier = &jwtv3.JwtProvider_RemoteJwks{RemoteJwks: remoteKeys(r)}
		return p
	}
	// Envoy refuses a set without keys. An empty text makes a provider that accepts no token.
	p.JwksSourceSpecifier = &jwtv3.JwtProvider_LocalJwks{
		LocalJwks: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: r.Keys}},
	}
	return p
}

// remoteKeys returns how Envoy fetches the keys at the rule's jwksUri through r.Cluster, and caches
// them for cacheDuration. The timeout is the rule's, or fetchTimeout if unset.
func remoteKeys(r Rule) *jwtv3.RemoteJwks {
	timeout := durationpb.New(fetchTimeout)
	if t := r.Spec.GetTimeout(); t != nil {
		timeout = t
	}
	return &jwtv3.RemoteJwks{
		HttpUri: &corev3.HttpUri{
			Uri:              r.Spec.GetJwksUri(),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: r.Cluster},
			Timeout:          timeout,
		},
		CacheDuration: durationpb.New(cacheDuration),
	}
}

// spaceDelimited returns the names of the claims whose text is a space-delimited list, sorted and
// without duplicates: "permission", "scope" and the names that the rule adds.
func spaceDelimited(r *security.JWTRule) []string {
	list := append([]string{"permission", "scope"}, r.GetSpaceDelimitedClaims()...)
	slices.Sort(list)
	return slices.Compact(list)
}
