package config

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// maxCompared limits with how many earlier matches a match is compared. The cost of a large
// VirtualService therefore remains proportional to its size.
const maxCompared = 100

// earlierMatches contains the matches of the HTTP routes before the current one.
type earlierMatches struct {
	equal map[string]int // the first route with a match, by matchKey
	// broad contains the matches that may match more than one path. byPath contains the others by
	// exact path.
	broad  []matchOfRoute
	byPath map[string][]matchOfRoute
}

// matchOfRoute is a match and the index of its route.
type matchOfRoute struct {
	match *networking.HTTPMatchRequest
	route int
}

// findCovering returns the index of the first route found whose match covers m, or -1 if there is
// none. key is matchKey(m). A route with an equal key is found first, then broad matches, then
// matches of the same exact path. same reports whether the two matches are equal.
func (e *earlierMatches) findCovering(key string, m *networking.HTTPMatchRequest) (route int, same bool) {
	if route, same = e.equal[key]; same {
		return route, true
	}
	for _, list := range [][]matchOfRoute{e.broad, e.byPath[m.GetUri().GetExact()]} {
		for _, earlier := range list {
			if matchCovers(earlier.match, m) {
				return earlier.route, false
			}
		}
	}
	return -1, false
}

// addMatch records a match of a route, and replaces the route recorded for the same key. key is
// matchKey(m). A list of maxCompared matches takes no more; further matches are then only found by
// their key.
func (e *earlierMatches) addMatch(key string, m *networking.HTTPMatchRequest, route int) {
	e.equal[key] = route
	path := m.GetUri().GetExact()
	switch {
	case path == "" || m.GetIgnoreUriCase():
		if len(e.broad) < maxCompared {
			e.broad = append(e.broad, matchOfRoute{m, route})
		}
	case len(e.byPath[path]) < maxCompared:
		e.byPath[path] = append(e.byPath[path], matchOfRoute{m, route})
	}
}

// matchCovers reports whether every request that later matches is also matched by earlier. It
// compares regular expressions only by their text, so it may return false for a match that is
// covered. It never returns true for a match that is not covered. Name and statPrefix do not select
// requests and are ignored.
func matchCovers(earlier, later *networking.HTTPMatchRequest) bool {
	return uriCovers(earlier, later) &&
		stringCovers(earlier.GetScheme(), later.GetScheme()) &&
		stringCovers(earlier.GetMethod(), later.GetMethod()) &&
		stringCovers(earlier.GetAuthority(), later.GetAuthority()) &&
		conditionsCover(earlier.GetHeaders(), later.GetHeaders(), stringCovers) &&
		conditionsCover(earlier.GetQueryParams(), later.GetQueryParams(), stringCovers) &&
		conditionsCover(earlier.GetWithoutHeaders(), later.GetWithoutHeaders(), equalMatches) &&
		(earlier.GetPort() == 0 || earlier.GetPort() == later.GetPort()) &&
		(earlier.GetSourceNamespace() == "" || earlier.GetSourceNamespace() == later.GetSourceNamespace()) &&
		labelsCover(earlier.GetSourceLabels(), later.GetSourceLabels()) &&
		gatewaysCover(earlier.GetGateways(), later.GetGateways())
}

// uriCovers reports whether every path that later matches is also matched by earlier. A match
// without a path is the prefix "/" in proxies; both, and the regular expression ".*", cover every
// path. It may return false for another regular expression that covers later.
func uriCovers(earlier, later *networking.HTTPMatchRequest) bool {
	a, b := earlier.GetUri(), later.GetUri()
	switch {
	case a.GetMatchType() == nil, a.GetPrefix() == "/", a.GetRegex() == anyText:
		return true
	case b.GetMatchType() == nil:
		return false
	case a.GetRegex() == "" && b.GetRegex() == "" && earlier.GetIgnoreUriCase():
		return stringCovers(lowerMatch(a), lowerMatch(b))
	case later.GetIgnoreUriCase() && !earlier.GetIgnoreUriCase():
		return false // other cases of the later path are not matched by the earlier one
	default:
		return stringCovers(a, b)
	}
}

// anyText is the regular expression that matches every value.
const anyText = ".*"

// stringCovers reports whether every value that b matches is matched by a. A match that is not set
// matches every value; for a header or query parameter, it requires presence. Regular expressions
// are compared by their text, so it may return false although a covers b.
func stringCovers(a, b *networking.StringMatch) bool {
	switch a.GetMatchType().(type) {
	case nil:
		return true
	case *networking.StringMatch_Prefix:
		switch b.GetMatchType().(type) {
		case *networking.StringMatch_Exact:
			return strings.HasPrefix(b.GetExact(), a.GetPrefix())
		case *networking.StringMatch_Prefix:
			return strings.HasPrefix(b.GetPrefix(), a.GetPrefix())
		}
		return false
	default:
		return a.GetRegex() == anyText || equalMatches(a, b)
	}
}

// equalMatches reports whether both match by the same kind and text. Two unset matches are equal.
func equalMatches(a, b *networking.StringMatch) bool { return proto.Equal(a, b) }

// lowerMatch returns an exact or prefix match with its text in lower case. Any other match becomes
// an empty prefix, so callers must not pass a regular expression.
func lowerMatch(m *networking.StringMatch) *networking.StringMatch {
	if _, exact := m.GetMatchType().(*networking.StringMatch_Exact); exact {
		return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: strings.ToLower(m.GetExact())}}
	}
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: strings.ToLower(m.GetPrefix())}}
}

// conditionsCover reports whether later has each condition of earlier, by name, in a form that the
// earlier one covers. It is true if earlier has none.
func conditionsCover(
	earlier, later map[string]*networking.StringMatch,
	covers func(a, b *networking.StringMatch) bool,
) bool {
	for name, a := range earlier {
		if b, there := later[name]; !there || !covers(a, b) {
			return false
		}
	}
	return true
}

// labelsCover reports whether later requires each label of earlier with exactly the same value.
func labelsCover(earlier, later map[string]string) bool {
	for name, value := range earlier {
		if got, there := later[name]; !there || got != value {
			return false
		}
	}
	return true
}

// gatewaysCover reports whether earlier contains all gateways in later. An empty list contains all
// gateways of the VirtualService.
func gatewaysCover(earlier, later []string) bool {
	return len(earlier) == 0 ||
		len(later) > 0 && !slices.ContainsFunc(later, func(g string) bool { return !slices.Contains(earlier, g) })
}
