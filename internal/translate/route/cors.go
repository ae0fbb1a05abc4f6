package route

import (
	"regexp"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// corsFilter is the HTTP filter that answers preflight requests. Every connection manager has it;
// it is inactive unless a route configures it.
const corsFilter = "envoy.filters.http.cors"

// newCORS translates CorsPolicy, for all requests of a route. Preflight requests of other origins
// are forwarded to the application, unless unmatchedPreflights is IGNORE.
func newCORS(in *networking.CorsPolicy) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		AllowOriginStringMatch: corsOrigins(in),
		AllowMethods:           strings.Join(in.GetAllowMethods(), ","),
		AllowHeaders:           strings.Join(in.GetAllowHeaders(), ","),
		ExposeHeaders:          strings.Join(in.GetExposeHeaders(), ","),
		AllowCredentials:       in.GetAllowCredentials(),
		FilterEnabled: &corev3.RuntimeFractionalPercent{
			DefaultValue: &typev3.FractionalPercent{Numerator: 100},
		},
		// Preflight requests of other origins are forwarded to the application, unless the policy
		// ignores them.
		ForwardNotMatchingPreflights: wrapperspb.Bool(in.GetUnmatchedPreflights() != networking.CorsPolicy_IGNORE),
	}
	if in.GetMaxAge() != nil {
		out.MaxAge = strconv.FormatInt(in.GetMaxAge().GetSeconds(), 10)
	}
	return out
}

// corsOrigins returns matchers of the allowed origins: of allowOrigins or, if that is unset, of the
// deprecated allowOrigin. Entries of allowOrigins that stringMatch reads as any value are left out,
// so they allow no origin.
func corsOrigins(in *networking.CorsPolicy) []*matcherv3.StringMatcher {
	var out []*matcherv3.StringMatcher
	for _, o := range in.GetAllowOrigins() {
		if m := stringMatch(o); m != nil { // An empty match allows no origin.
			out = append(out, m)
		}
	}
	if in.GetAllowOrigins() != nil {
		return out
	}
	for _, o := range in.GetAllowOrigin() { //nolint:staticcheck // deprecated, still in use
		out = append(out, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: o}})
	}
	return out
}

// extendedCORS translates the CORS filter of the Gateway API. Preflight requests of other origins
// are answered without CORS headers, so browsers refuse them.
func extendedCORS(in *config.CORSPolicy) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		AllowMethods:     strings.Join(in.AllowMethods, ","),
		AllowHeaders:     strings.Join(in.AllowHeaders, ","),
		ExposeHeaders:    strings.Join(in.ExposeHeaders, ","),
		AllowCredentials: wrapperspb.Bool(in.AllowCredentials),
		FilterEnabled: &corev3.RuntimeFractionalPercent{
			DefaultValue: &typev3.FractionalPercent{Numerator: 100},
		},
		ForwardNotMatchingPreflights: wrapperspb.Bool(false),
	}
	if in.MaxAge > 0 {
		out.MaxAge = strconv.FormatInt(int64(in.MaxAge), 10)
	}
	for _, o := range in.AllowOrigins {
		out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, originMatch(o))
	}
	return out
}

// originMatch returns the match of an origin, in which "*" matches any characters.
func originMatch(origin string) *matcherv3.StringMatcher {
	if !strings.Contains(origin, "*") {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: origin}}
	}
	text := strings.ReplaceAll(regexp.QuoteMeta(origin), `\*`, ".*")
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexMatcher(text)}}
}
