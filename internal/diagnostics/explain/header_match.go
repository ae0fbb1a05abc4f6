package explain

import (
	"fmt"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// headerMatches reports whether a request meets a HeaderMatcher. A missing header matches nothing,
// inverted or not, unless the matcher checks for presence or treats a missing header as empty. Each
// line of a header is compared separately (since Envoy 1.39). The error reports an unsupported
// matcher.
func headerMatches(h *routev3.HeaderMatcher, r *Request) (bool, error) {
	values := r.Values(strings.ToLower(h.GetName()))
	if p, ok := h.GetHeaderMatchSpecifier().(*routev3.HeaderMatcher_PresentMatch); ok {
		return (len(values) > 0 == p.PresentMatch) != h.GetInvertMatch(), nil
	}
	if h.GetHeaderMatchSpecifier() == nil {
		return len(values) > 0 != h.GetInvertMatch(), nil
	}
	if len(values) == 0 {
		if !h.GetTreatMissingHeaderAsEmpty() {
			return false, nil
		}
		values = []string{""}
	}
	for _, v := range values {
		if ok, err := headerValueMatches(h, v); err != nil || ok {
			return ok != h.GetInvertMatch(), err
		}
	}
	return h.GetInvertMatch(), nil
}

// headerValueMatches reports whether a value meets the condition of a HeaderMatcher. It returns an
// error for an unsupported condition. A value that is not a number matches no range; ranges exclude
// their end. InvertMatch is not considered.
func headerValueMatches(h *routev3.HeaderMatcher, value string) (bool, error) {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return stringMatches(s.StringMatch, value)
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(value, 10, 64)
		return err == nil && n >= s.RangeMatch.GetStart() && n < s.RangeMatch.GetEnd(), nil
	default:
		return oldHeaderMatches(h, value)
	}
}

// oldHeaderMatches reports whether value fulfils one of the deprecated matcher fields, which
// EnvoyFilters may still use. It is case-sensitive and ignores InvertMatch. Any other matcher is an
// error.
//
//nolint:staticcheck // deprecated, and in use
func oldHeaderMatches(h *routev3.HeaderMatcher, value string) (bool, error) {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_ExactMatch:
		return value == s.ExactMatch, nil
	case *routev3.HeaderMatcher_PrefixMatch:
		return strings.HasPrefix(value, s.PrefixMatch), nil
	case *routev3.HeaderMatcher_SuffixMatch:
		return strings.HasSuffix(value, s.SuffixMatch), nil
	case *routev3.HeaderMatcher_ContainsMatch:
		return strings.Contains(value, s.ContainsMatch), nil
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return matchesWhole(s.SafeRegexMatch.GetRegex(), value)
	default:
		return false, fmt.Errorf("the header matcher %T is not supported", s)
	}
}

// headerText describes the condition of a HeaderMatcher on a string or on presence, inverted if it
// is. All others, also a matcher without a condition, are described as "as asked for".
func headerText(h *routev3.HeaderMatcher) string {
	not := ""
	if h.GetInvertMatch() {
		not = "not "
	}
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return h.GetName() + " " + not + stringText(s.StringMatch)
	case *routev3.HeaderMatcher_PresentMatch:
		if s.PresentMatch == h.GetInvertMatch() {
			return "no " + h.GetName()
		}
		return h.GetName() + " is there"
	default:
		return h.GetName() + " " + not + "as asked for"
	}
}

// queryMatches reports whether a request meets a QueryParameterMatcher. It compares the first value
// of the parameter, without decoding it. Without a condition the parameter must be present. A
// missing parameter matches no string. The error reports an unsupported matcher.
func queryMatches(q *routev3.QueryParameterMatcher, r *Request) (bool, error) {
	_, query := r.splitPath()
	value, there := queryValue(query, q.GetName())
	switch s := q.GetQueryParameterMatchSpecifier().(type) {
	case nil:
		return there, nil
	case *routev3.QueryParameterMatcher_PresentMatch:
		return there == s.PresentMatch, nil
	case *routev3.QueryParameterMatcher_StringMatch:
		if !there {
			return false, nil
		}
		return stringMatches(s.StringMatch, value)
	default:
		return false, fmt.Errorf("the query matcher %T is not supported", s)
	}
}

// queryValue returns the first value of a query parameter, and whether the query has it. The value
// is not unescaped.
func queryValue(query, name string) (string, bool) {
	for part := range strings.SplitSeq(query, "&") {
		n, v, _ := strings.Cut(part, "=")
		if n == name && part != "" {
			return v, true
		}
	}
	return "", false
}

// queryText describes the condition of a QueryParameterMatcher, by default presence.
func queryText(q *routev3.QueryParameterMatcher) string {
	switch s := q.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_StringMatch:
		return "parameter " + q.GetName() + " " + stringText(s.StringMatch)
	case *routev3.QueryParameterMatcher_PresentMatch:
		if !s.PresentMatch {
			return "no parameter " + q.GetName()
		}
	}
	return "parameter " + q.GetName() + " is there"
}

// cookieText describes the condition of a CookieMatcher.
func cookieText(c *routev3.CookieMatcher) string {
	not := ""
	if c.GetInvertMatch() {
		not = "not "
	}
	return "cookie " + c.GetName() + " " + not + stringText(c.GetStringMatch())
}
