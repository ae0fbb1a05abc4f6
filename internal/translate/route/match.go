package route

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// routeMatch translates a match; nil matches everything. The path is case-sensitive unless
// ignoreUriCase is set. Conditions on token claims become conditions on metadata. A withoutHeaders
// condition with a value also matches requests without the header. Headers are sorted by name,
// before method, authority and scheme; query parameters are sorted by name.
func routeMatch(m *networking.HTTPMatchRequest) *routev3.RouteMatch {
	out := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	if m == nil {
		return out
	}
	setPath(out, m.GetUri())
	out.CaseSensitive = wrapperspb.Bool(!m.GetIgnoreUriCase())
	out.DynamicMetadata = slices.Concat(claimMatches(m.GetHeaders(), false), claimMatches(m.GetWithoutHeaders(), true))
	for name, s := range m.GetHeaders() {
		if _, claim := token.RoutingClaim(name); !claim {
			out.Headers = append(out.Headers, headerMatch(name, s))
		}
	}
	for name, s := range m.GetWithoutHeaders() {
		if _, claim := token.RoutingClaim(name); claim {
			continue
		}
		h := headerMatch(name, s)
		h.InvertMatch = true
		// A request without the header also lacks that value. By default Envoy would require the
		// header to be present.
		h.TreatMissingHeaderAsEmpty = h.GetStringMatch() != nil
		out.Headers = append(out.Headers, h)
	}
	slices.SortStableFunc(out.Headers, func(a, b *routev3.HeaderMatcher) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(boolRank(a.InvertMatch), boolRank(b.InvertMatch)))
	})
	for _, p := range []struct {
		header string
		match  *networking.StringMatch
	}{{":method", m.GetMethod()}, {":authority", m.GetAuthority()}, {":scheme", m.GetScheme()}} {
		if p.match != nil {
			out.Headers = append(out.Headers, headerMatch(p.header, p.match))
		}
	}
	for name, s := range m.GetQueryParams() {
		out.QueryParameters = append(out.QueryParameters, queryMatch(name, s))
	}
	slices.SortFunc(
		out.QueryParameters,
		func(a, b *routev3.QueryParameterMatcher) int { return cmp.Compare(a.Name, b.Name) },
	)
	return out
}

// claimMatches returns the matchers of token claims (token.RoutingClaim) among matches of headers.
// If without is set, requests must not have the claims; requests without a token have none.
func claimMatches(headers map[string]*networking.StringMatch, without bool) []*matcherv3.MetadataMatcher {
	var list []*matcherv3.MetadataMatcher
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if path, ok := token.RoutingClaim(name); ok {
			m := token.Claim(path, stringMatch(headers[name]))
			m.Invert = without
			list = append(list, m)
		}
	}
	return list
}

// boolRank returns 1 for true and 0 for false, for ordering false before true.
func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setPath sets the path that a route matches; it does nothing if uri is nil. A uri without a type
// of match also sets nothing.
func setPath(out *routev3.RouteMatch, uri *networking.StringMatch) {
	switch u := uri.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: u.Exact}
	case *networking.StringMatch_Prefix:
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: u.Prefix}
	case *networking.StringMatch_Regex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regexMatcher(u.Regex)}
	}
}

// regexMatcher returns the matcher of a regular expression, which is not validated.
func regexMatcher(expression string) *matcherv3.RegexMatcher {
	return &matcherv3.RegexMatcher{Regex: expression}
}

// headerMatch returns a matcher of a header by s, or of its presence if s is nil or matches any
// value (stringMatch).
func headerMatch(name string, s *networking.StringMatch) *routev3.HeaderMatcher {
	if m := stringMatch(s); m != nil {
		return &routev3.HeaderMatcher{
			Name:                 name,
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m},
		}
	}
	return &routev3.HeaderMatcher{
		Name:                 name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
}

// queryMatch returns a matcher of a query parameter by s. It only matches its presence if
// stringMatch returns nil: without a match, or for an empty prefix or expression or "*".
func queryMatch(name string, s *networking.StringMatch) *routev3.QueryParameterMatcher {
	if m := stringMatch(s); m != nil {
		return &routev3.QueryParameterMatcher{
			Name: name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_StringMatch{StringMatch: m},
		}
	}
	return &routev3.QueryParameterMatcher{
		Name: name, QueryParameterMatchSpecifier: &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true},
	}
}

// stringMatch translates a StringMatch. It returns nil if any value matches: without a match, and
// for a prefix or regular expression without text, which Envoy refuses. The expression "*", which
// is not valid RE2, counts as any value too.
func stringMatch(s *networking.StringMatch) *matcherv3.StringMatcher {
	switch m := s.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: m.Exact}}
	case *networking.StringMatch_Prefix:
		if m.Prefix != "" {
			return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}}
		}
	case *networking.StringMatch_Regex:
		if m.Regex != "" && m.Regex != "*" { // "*" is not valid RE2, but users write it for "any".
			return &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regexMatcher(m.Regex)},
			}
		}
	}
	return nil
}

// takesAll reports whether a match matches all requests: the prefix "/" or "", or the regular
// expression ".*", and no condition on headers, query parameters or metadata.
func takesAll(m *routev3.RouteMatch) bool {
	anyPath := false
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		anyPath = p.Prefix == "/" || p.Prefix == ""
	case *routev3.RouteMatch_SafeRegex:
		anyPath = p.SafeRegex.GetRegex() == ".*"
	}
	return anyPath && len(m.GetHeaders()) == 0 && len(m.GetQueryParameters()) == 0 && len(m.GetDynamicMetadata()) == 0
}
