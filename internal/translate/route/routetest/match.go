package routetest

import (
	"fmt"
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// matches says whether a RouteMatch takes a request. A matcher that it does not know is an error.
func matches(m *routev3.RouteMatch, r Request) (bool, error) {
	ok, err := pathMatches(m, r.Path)
	if err != nil || !ok {
		return false, err
	}
	for _, h := range m.GetHeaders() {
		if ok, err := headerMatches(h, r); err != nil || !ok {
			return false, err
		}
	}
	for _, q := range m.GetQueryParameters() {
		if ok, err := queryMatches(q, r); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func pathMatches(m *routev3.RouteMatch, path string) (bool, error) {
	fold := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	same := func(s string) string {
		if fold {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return strings.HasPrefix(same(path), same(p.Prefix)), nil
	case *routev3.RouteMatch_Path:
		return same(path) == same(p.Path), nil
	case *routev3.RouteMatch_SafeRegex:
		return wholly(p.SafeRegex.GetRegex(), path)
	default:
		return false, fmt.Errorf("path matcher %T is not known here", p)
	}
}

// wholly says whether a regular expression matches all of the text.
func wholly(expression, text string) (bool, error) {
	re, err := regexp.Compile(`^(?:` + expression + `)$`)
	if err != nil {
		return false, err
	}
	return re.MatchString(text), nil
}

// headerMatches follows HeaderMatcher: a header that is missing matches nothing, inverted or not, unless presence is
// asked for or a missing header counts as empty.
func headerMatches(h *routev3.HeaderMatcher, r Request) (bool, error) {
	value, there := r.header(h.GetName())
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PresentMatch:
		return (there == s.PresentMatch) != h.GetInvertMatch(), nil
	case *routev3.HeaderMatcher_StringMatch:
		if !there && !h.GetTreatMissingHeaderAsEmpty() {
			return false, nil
		}
		ok, err := stringMatches(s.StringMatch, value)
		return ok != h.GetInvertMatch(), err
	default:
		return false, fmt.Errorf("header matcher %T is not known here", s)
	}
}

// header gives a header's value, several joined as Envoy joins them.
func (r Request) header(name string) (string, bool) {
	switch name {
	case ":method":
		return r.Method, true
	case ":authority":
		return r.Authority, true
	case ":scheme":
		return r.Scheme, true
	case ":path":
		if len(r.Query) > 0 {
			return r.Path + "?" + r.Query.Encode(), true
		}
		return r.Path, true
	}
	values := r.Header.Values(name)
	return strings.Join(values, ","), len(values) > 0
}

func queryMatches(q *routev3.QueryParameterMatcher, r Request) (bool, error) {
	there := r.Query.Has(q.GetName())
	switch s := q.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_PresentMatch:
		return there == s.PresentMatch, nil
	case *routev3.QueryParameterMatcher_StringMatch:
		if !there {
			return false, nil
		}
		return stringMatches(s.StringMatch, r.Query.Get(q.GetName()))
	default:
		return false, fmt.Errorf("query matcher %T is not known here", s)
	}
}

func stringMatches(m *matcherv3.StringMatcher, value string) (bool, error) {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return value == p.Exact, nil
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(value, p.Prefix), nil
	case *matcherv3.StringMatcher_SafeRegex:
		return wholly(p.SafeRegex.GetRegex(), value)
	default:
		return false, fmt.Errorf("string matcher %T is not known here", p)
	}
}
