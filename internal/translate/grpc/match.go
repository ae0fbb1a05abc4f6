package grpc

import (
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// reduceMatch returns a match as gRPC clients evaluate it, or nil if no call can match it.
//
// Clients know the path and the application's metadata (proposals A28, A31). Conditions on :method
// and :scheme, which are equal in all their calls, are evaluated here and removed. Conditions on
// query parameters and on metadata from filters never match, unless the latter is inverted.
func reduceMatch(m *routev3.RouteMatch) *routev3.RouteMatch {
	if len(m.GetQueryParameters()) > 0 { // Paths of gRPC have none.
		return nil
	}
	for _, d := range m.GetDynamicMetadata() {
		if !d.GetInvert() {
			return nil
		}
	}
	out := &routev3.RouteMatch{
		PathSpecifier:   m.GetPathSpecifier(),
		CaseSensitive:   m.GetCaseSensitive(),
		RuntimeFraction: m.GetRuntimeFraction(),
	}
	for _, h := range m.GetHeaders() {
		value, same := constantHeader(h.GetName())
		switch {
		case !same:
			out.Headers = append(out.Headers, h)
		case matchesValue(h, value) == h.GetInvertMatch():
			return nil
		}
	}
	return out
}

// constantHeader returns the value that a header has in every gRPC call: "POST" for :method, "http"
// for :scheme. Case does not matter. For all other headers same is false.
func constantHeader(header string) (value string, same bool) {
	switch strings.ToLower(header) {
	case ":method":
		return "POST", true
	case ":scheme": // Proxies are called in plaintext.
		return "http", true
	default:
		return "", false
	}
}

// matchesValue reports whether the matcher h matches value; inversion is ignored. Case is ignored
// if the matcher ignores it, except by regular expressions, which must match the whole value. A
// presence matcher matches any value if it requires presence. Unsupported matchers and invalid
// expressions match none.
func matchesValue(h *routev3.HeaderMatcher, value string) bool {
	if _, present := h.GetHeaderMatchSpecifier().(*routev3.HeaderMatcher_PresentMatch); present {
		return h.GetPresentMatch()
	}
	s := h.GetStringMatch()
	has := func(test func(s, pattern string) bool, pattern string) bool {
		if s.GetIgnoreCase() {
			return test(strings.ToLower(value), strings.ToLower(pattern))
		}
		return test(value, pattern)
	}
	switch p := s.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return has(func(s, pattern string) bool { return s == pattern }, p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return has(strings.HasPrefix, p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return has(strings.HasSuffix, p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return has(strings.Contains, p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		re, err := regexp.Compile("^(?:" + p.SafeRegex.GetRegex() + ")$")
		return err == nil && re.MatchString(value)
	default:
		return false
	}
}

// isUnknownHeader reports whether a header is a pseudo header that gRPC clients do not evaluate and
// that differs from call to call.
func isUnknownHeader(name string) bool {
	return slices.Contains([]string{":authority", "host", ":path"}, strings.ToLower(name))
}
