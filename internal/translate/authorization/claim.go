package authorization

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// inToken matches a value of a token's payload, which may be text or a list of texts.
func inToken(path []string, m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{
		MetadataMatcher: token.Claim(path, m),
	}}}
}

func segment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

// claimIs: the name is "groups", or "nested][group" of request.auth.claims[nested][group].
func claimIs(s scope, value string) *rbacv3.Principal {
	return inToken(strings.Split(s.name, "]["), pattern(value))
}

func audienceIs(_ scope, value string) *rbacv3.Principal {
	return inToken([]string{"aud"}, pattern(value))
}

func presenterIs(_ scope, value string) *rbacv3.Principal {
	return inToken([]string{"azp"}, pattern(value))
}

// requestPrincipalIs: "issuer/subject", with a wildcard at its begin or end. The issuer may have slashes, the subject is taken to
// have none.
func requestPrincipalIs(_ scope, value string) *rbacv3.Principal {
	both := func(issuer, subject string) *rbacv3.Principal {
		return principals.and([]*rbacv3.Principal{inToken([]string{"iss"}, pattern(issuer)), inToken([]string{"sub"}, pattern(subject))})
	}
	slash := strings.LastIndexByte(value, '/')
	switch {
	case value == present:
		return both(present, present)
	case slash >= 0:
		return both(value[:slash], value[slash+1:])
	case strings.HasPrefix(value, "*"): // "*subject"
		return both(present, value)
	case strings.HasSuffix(value, "*"): // "issuer*"
		return both(value, present)
	default: // no token has such a principal
		return principals.nothing()
	}
}
