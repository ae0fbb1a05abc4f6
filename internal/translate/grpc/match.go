package grpc

import (
	"regexp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// reduceMatch gives a match as gRPC's clients decide it, nil if no call of theirs can meet it.
//
// They know the path and the application's metadata (proposals A28, A31). What is the same in all their calls is decided here, for
// they would find nothing of it; and what a filter has found out is not there, which they would take for met.
func reduceMatch(m *routev3.RouteMatch) *routev3.RouteMatch {
	if len(m.GetQueryParameters()) > 0 { // no path of gRPC has any
		return nil
	}
	for _, d := range m.GetDynamicMetadata() {
		if !d.GetInvert() {
			return nil
		}
	}
	out := &routev3.RouteMatch{PathSpecifier: m.GetPathSpecifier(), CaseSensitive: m.GetCaseSensitive(), RuntimeFraction: m.GetRuntimeFraction()}
	for _, h := range m.GetHeaders() {
		value, same := constant(h.GetName())
		switch {
		case !same:
			out.Headers = append(out.Headers, h)
		case holds(h, value) == h.GetInvertMatch():
			return nil
		}
	}
	return out
}

// constant gives the value of a header that all calls of gRPC share.
func constant(header string) (value string, same bool) {
	switch strings.ToLower(header) {
	case ":method":
		return "POST", true
	case ":scheme": // proxies are called in the clear
		return "http", true
	default:
		return "", false
	}
}

// holds says whether a matcher takes a value, inversion aside.
func holds(h *routev3.HeaderMatcher, value string) bool {
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

// unknownHeaders are pseudo headers that gRPC's clients find nothing of, and that differ from call to call.
func unknownHeader(name string) bool {
	return slices.Contains([]string{":authority", "host", ":path"}, strings.ToLower(name))
}
