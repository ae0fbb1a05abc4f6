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

// authenticated is a caller whose certificate has an identity that matches. Without mutual TLS there is none, and so no match.
func authenticated(m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: m}}}
}

// principalIs: "cluster.local/ns/a/sa/b", "*" for anybody with a certificate, a prefix or a suffix. What is said of one of the mesh's
// trust domains is meant for all of them.
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

// inDomains gives a principal as it is called in each of the mesh's trust domains, if it is in one of them.
func (s scope) inDomains(value string) []string {
	domain, rest, ok := strings.Cut(value, "/")
	if !ok {
		return []string{value}
	}
	var list []string
	for _, d := range s.alike(domain) {
		list = append(list, d+"/"+rest)
	}
	return list
}

// alike gives the trust domains that one stands for: all of the mesh's, if it is one of them. "cluster.local" stands for the mesh's own
// domain, whatever that is.
func (s scope) alike(domain string) []string {
	if domain == "cluster.local" || slices.Contains(s.domains, domain) {
		return s.domains
	}
	return []string{domain}
}

func namespaceIs(_ scope, value string) *rbacv3.Principal {
	return authenticated(regex(identityScheme + `[^/]+/ns/` + within(value, `[^/]`) + `/.*`))
}

// serviceAccountIs: "namespace/name", or a name in the policy's namespace.
func serviceAccountIs(s scope, value string) *rbacv3.Principal {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = s.namespace, value
	}
	return authenticated(regex(identityScheme + `[^/]+/ns/` + quoted(namespace) + `/sa/` + quoted(name)))
}

// trustDomainIs: what is said of one of the mesh's own is meant for all of them, as of principals.
func trustDomainIs(s scope, value string) *rbacv3.Principal {
	var list []*rbacv3.Principal
	for _, d := range s.alike(value) {
		list = append(list, authenticated(regex(identityScheme+within(d, `[^/]`)+`/.*`)))
	}
	return principals.or(list)
}

func directIP(_ scope, value string) *rbacv3.Principal {
	r, ok := cidr(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: r}}
}

func remoteIP(_ scope, value string) *rbacv3.Principal {
	r, ok := cidr(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: r}}
}

// headerIs holds where one of a header's values matches. It is asked of the caller, as istiod does.
func headerIs(s scope, value string) *rbacv3.Principal {
	h := &routev3.HeaderMatcher{Name: s.name}
	if value == present {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: pattern(value)}
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: h}}
}

// cidr reads an address or a range.
func cidr(value string) (*corev3.CidrRange, bool) {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return nil, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return &corev3.CidrRange{AddressPrefix: p.Masked().Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}, true
}
