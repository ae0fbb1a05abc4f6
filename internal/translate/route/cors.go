package route

import (
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// corsFilter is the HTTP filter that answers preflight requests. Every connection manager has it;
// it is inactive unless a route configures it.
const corsFilter = "envoy.filters.http.cors"

// newCORS translates CorsPolicy.
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
