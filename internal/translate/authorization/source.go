package authorization

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

const identityScheme = "spiffe://"

// authenticated matches callers by the identity in their certificate. Without mutual TLS there is
// none, so nothing matches.
func authenticated(m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{
		Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: m}},
	}
}

// principalIs matches "cluster.local/ns/a/sa/b", "*" for any certificate, a prefix or a suffix. A
// principal in one of the mesh's trust domains matches in all of them.
func principalIs(s scope, value string) *rbacv3.Principal {
	switch {
	case value == present:
		return authenticated(regex(".+"))
	case strings.HasPrefix(value, "*"):
		return authenticated(regex(identityScheme + ".*" + quoted(strings.TrimPrefix(value, "*"))))
	}
	var list []*rbacv3.Principal
	for _, v := range s.inDomains(value) {
		list = append(list, authenticated(pattern(identityScheme+v)))
	}
	return principals.or(list)
}

// inDomains returns a principal in each equivalent trust domain, if its own is one of the mesh's.
// Otherwise, and without a "/", it returns only the principal itself.
func (s scope) inDomains(value string) []string {
	domain, rest, ok := strings.Cut(value, "/")
	if !ok {
		return []string{value}
	}
	var list []string
	for _, d := range s.equivalentDomains(domain) {
		list = append(list, d+"/"+rest)
	}
	return list
}

// equivalentDomains returns all trust domains of the mesh if domain is one of them, else domain
// itself. "cluster.local" always means the mesh's own.
func (s scope) equivalentDomains(domain string) []string {
	if domain == "cluster.local" || slices.Contains(s.domains, domain) {
		return s.domains
	}
	return []string{domain}
}

func namespaceIs(_ scope, value string) *rbacv3.Principal {
	return authenticated(regex(identityScheme + `[^/]+/ns/` + within(value, `[^/]`) + `/.*`))
}

// serviceAccountIs matches "namespace/name", or a name in the policy's namespace, in any trust
// domain.
func serviceAccountIs(s scope, value string) *rbacv3.Principal {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = s.namespace, value
	}
	return authenticated(regex(identityScheme + `[^/]+/ns/` + quoted(namespace) + `/sa/` + quoted(name)))
}

// trustDomainIs matches a trust domain. One of the mesh's own matches all of them, as in
// principals.
func trustDomainIs(s scope, value string) *rbacv3.Principal {
	var list []*rbacv3.Principal
	for _, d := range s.equivalentDomains(value) {
		list = append(list, authenticated(regex(identityScheme+within(d, `[^/]`)+`/.*`)))
	}
	return principals.or(list)
}

func directIP(_ scope, value string) *rbacv3.Principal {
	r, ok := parseCIDR(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: r}}
}

func remoteIP(_ scope, value string) *rbacv3.Principal {
	r, ok := parseCIDR(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: r}}
}

// headerIs matches if one of a header's values does. As in istiod, it is a condition on the caller.
func headerIs(s scope, value string) *rbacv3.Principal {
	h := &routev3.HeaderMatcher{Name: s.name}
	if value == present {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: pattern(value)}
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: h}}
}

// parseCIDR parses an address or a range; ok is false for others. Bits beyond the prefix are
// cleared.
func parseCIDR(value string) (*corev3.CidrRange, bool) {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return nil, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return &corev3.CidrRange{
		AddressPrefix: p.Masked().Addr().String(),
		PrefixLen:     wrapperspb.UInt32(uint32(p.Bits())),
	}, true
}
