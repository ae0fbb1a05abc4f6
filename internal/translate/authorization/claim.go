package authorization

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// inToken returns a matcher of calls with a validated token. At path in its payload, the token must
// have a string that m matches, or a list with such a string.
func inToken(path []string, m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{
		MetadataMatcher: token.Claim(path, m),
	}}}
}

// pathSegment returns the path segment that selects a member of an object by its key.
func pathSegment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

// claimIs matches calls whose token has value (a pattern) in the claim s.name. The name is
// "groups", or "nested][group" of request.auth.claims[nested][group].
func claimIs(s scope, value string) *rbacv3.Principal {
	return inToken(strings.Split(s.name, "]["), pattern(value))
}

// audienceIs matches calls whose token has the audience value, a pattern (claim aud).
func audienceIs(_ scope, value string) *rbacv3.Principal {
	return inToken([]string{"aud"}, pattern(value))
}

// presenterIs matches calls whose token has the authorized party value, a pattern (claim azp).
func presenterIs(_ scope, value string) *rbacv3.Principal {
	return inToken([]string{"azp"}, pattern(value))
}

// requestPrincipalIs matches value against "ISS/SUB" of a token: exact, a prefix, a suffix, or "*"
// for any token with both claims. Envoy has the two claims separately, and both may contain
// slashes. So each slash after the scheme is tried as separator; a prefix may also end within the
// issuer, a suffix begin within the subject. If s.admits is set, only the last slash separates
// (lastSplit). A value without such a slash, and without "*" at one of its ends, matches nothing.
func requestPrincipalIs(s scope, value string) *rbacv3.Principal {
	if s.admits {
		return lastSplit(value)
	}
	var list []*rbacv3.Principal
	switch {
	case value == present:
		return bothClaims(pattern(present), pattern(present))
	case strings.HasPrefix(value, "*"):
		list = append(list, bothClaims(pattern(present), pattern(value)))
	case strings.HasSuffix(value, "*"):
		list = append(list, bothClaims(pattern(value), pattern(present)))
	}
	for i := afterScheme(value); i < len(value); i++ {
		if value[i] == '/' {
			list = append(list, bothClaims(pattern(value[:i]), pattern(value[i+1:])))
		}
	}
	if len(list) == 0 {
		return principals.nothing() // Every principal has a slash.
	}
	return principals.or(list)
}

// lastSplit is requestPrincipalIs for values that admit calls. As in istiod, the last slash
// separates issuer and subject, so no token of another issuer, and none with a slash in its
// subject, matches by accident. The claim at the other end of a wildcard is compared exactly.
// Without a slash after the scheme, a prefix is one of issuers, and a suffix one of subjects.
func lastSplit(value string) *rbacv3.Principal {
	i := strings.LastIndexByte(value, '/')
	split, isSuffix, isPrefix := i >= afterScheme(value), strings.HasPrefix(value, "*"), strings.HasSuffix(value, "*")
	switch {
	case value == present:
		return bothClaims(pattern(present), pattern(present))
	case split && isSuffix:
		return bothClaims(pattern(value[:i]), exactly(value[i+1:]))
	case split && isPrefix:
		return bothClaims(exactly(value[:i]), pattern(value[i+1:]))
	case split:
		return bothClaims(exactly(value[:i]), exactly(value[i+1:]))
	case isSuffix:
		return bothClaims(pattern(present), pattern(value))
	case isPrefix:
		return bothClaims(pattern(value), pattern(present))
	default:
		return principals.nothing() // Every principal has a slash.
	}
}

// bothClaims returns a matcher of calls with a token whose claims iss and sub match.
func bothClaims(issuer, subject *matcherv3.StringMatcher) *rbacv3.Principal {
	return principals.and([]*rbacv3.Principal{
		inToken([]string{"iss"}, issuer), inToken([]string{"sub"}, subject),
	})
}

// afterScheme returns the index after "://", whose slashes are always part of an issuer; 0 if there
// is none.
func afterScheme(value string) int {
	if i := strings.Index(value, "://"); i >= 0 {
		return i + len("://")
	}
	return 0
}
