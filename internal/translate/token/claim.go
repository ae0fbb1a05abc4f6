package token

import (
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

const (
	// Filter is the name of the filter that validates tokens, and the namespace of dynamic metadata
	// to which it writes their contents.
	Filter = "envoy.filters.http.jwt_authn"
	// Payload is the metadata key of the token's payload.
	Payload = "payload"
)

// RoutingPrefix is the prefix of the "header" names by which a VirtualService matches a claim
// (HTTPMatchRequest.headers).
const RoutingPrefix = "@request.auth.claims"

// RoutingClaim parses the name of a claim in a match of headers, "@request.auth.claims.a.b" or
// "@request.auth.claims[a][b]", and returns its path. The prefix may be in any case. ok is false if
// name is the name of a header, or malformed.
func RoutingClaim(name string) (path []string, ok bool) {
	if len(name) < len(RoutingPrefix) || !strings.EqualFold(name[:len(RoutingPrefix)], RoutingPrefix) {
		return nil, false
	}
	rest := name[len(RoutingPrefix):]
	switch {
	case len(rest) > 1 && rest[0] == '.':
		return strings.Split(rest[1:], "."), true
	case len(rest) > 2 && rest[0] == '[' && strings.HasSuffix(rest, "]"):
		return strings.Split(rest[1:len(rest)-1], "]["), true
	default:
		return nil, false
	}
}

// Claim returns a matcher of the claim at path, which lists the keys of nested objects. m must
// match the claim if it is a string, or an element if it is a list of strings. If m is nil, any
// value of the claim matches.
func Claim(path []string, m *matcherv3.StringMatcher) *matcherv3.MetadataMatcher {
	out := &matcherv3.MetadataMatcher{Filter: Filter, Path: []*matcherv3.MetadataMatcher_PathSegment{segment(Payload)}}
	for _, p := range path {
		out.Path = append(out.Path, segment(p))
	}
	if m == nil {
		out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
		return out
	}
	text := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
	among := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: text},
	}}}
	out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{
		ValueMatchers: []*matcherv3.ValueMatcher{text, among},
	}}}
	return out
}

// segment returns the path segment that selects a member of an object by its key.
func segment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}
