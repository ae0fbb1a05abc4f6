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

// authenticated matches callers whose certificate has an identity ("spiffe://…") that m matches.
// Callers without mutual TLS do not match.
func authenticated(m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{
		Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: m}},
	}
}

// principalIs matches the identity of the caller's certificate: "cluster.local/ns/a/sa/b", "*" for
// any, a prefix ("…*") or a suffix ("*…"). A principal or prefix matches in all of the mesh's trust
// domains if it begins with one of them, or "cluster.local", and "/" (inDomains), and a suffix if
// its domain matches one of them (besideSuffix).
func principalIs(s scope, value string) *rbacv3.Principal {
	if value == present {
		return authenticated(regex(".+"))
	}
	var list []*rbacv3.Principal
	add := func(m *matcherv3.StringMatcher) { list = append(list, authenticated(m)) }
	others := s.inDomains(value)
	if suffix, ok := strings.CutPrefix(value, "*"); ok {
		add(regex(identityScheme + ".*" + quoted(suffix)))
		others = s.besideSuffix(suffix)
	}
	for _, v := range others {
		add(pattern(identityScheme + v))
	}
	return principals.or(list)
}

// besideSuffix returns the principals that the suffix "END-OF-DOMAIN/ns/NAMESPACE/sa/ACCOUNT"
// matches as well, as in istiod: if a trust domain of the mesh has that end, it also means the
// other domains of the mesh. It returns nil for suffixes without an end of a domain, or of another
// form.
func (s scope) besideSuffix(suffix string) []string {
	end, rest, _ := strings.Cut(suffix, "/")
	matches := func(domain string) bool { return strings.HasSuffix(domain, end) }
	if end == "" || strings.Count(rest, "/") != 3 || !slices.ContainsFunc(s.domains, matches) {
		return nil
	}
	var list []string
	for _, d := range s.domains {
		if !matches(d) {
			list = append(list, d+"/"+rest)
		}
	}
	return list
}

// inDomains returns the principal value ("DOMAIN/ns/…") once for each trust domain of the mesh, if
// its domain is one of them or "cluster.local". Otherwise, and without a "/", it returns value
// alone. As in istiod, "cluster.local" always means the mesh's own domains in a principal of the
// form "DOMAIN/ns/NAMESPACE/sa/ACCOUNT". In others, like the prefix "cluster.local/*", it also
// means itself.
func (s scope) inDomains(value string) []string {
	domain, rest, ok := strings.Cut(value, "/")
	known := slices.Contains(s.domains, domain)
	if !ok || !known && domain != "cluster.local" {
		return []string{value}
	}
	var list []string
	for _, d := range s.domains {
		list = append(list, d+"/"+rest)
	}
	if !known && strings.Count(rest, "/") != 3 {
		list = append(list, value)
	}
	return list
}

// namespaceIs matches callers by the namespace in their identity, in any trust domain. Each "*" in
// value matches any text without a slash, and a lone "*" any namespace. As in istiod, identities
// may have further segments around the namespace. Where s.admits is set, segments before it require
// an account after it: the account x of a namespace "ns" is not in the namespace "sa".
func namespaceIs(s scope, value string) *rbacv3.Principal {
	name := strings.ReplaceAll(quoted(value), `\*`, `[^/]*`)
	if value == present {
		name = `[^/]+`
	}
	name = `/ns/` + name + `/`
	if s.admits {
		return authenticated(regex(identityScheme + `([^/]+` + name + `|.+` + name + `(.+/)?sa/).*`))
	}
	return authenticated(regex(identityScheme + `.+` + name + `.*`))
}

// serviceAccountIs matches "namespace/name", or a name in the policy's namespace, in any trust
// domain. As in istiod, identities may have further segments before the namespace, before the
// account and after it.
func serviceAccountIs(s scope, value string) *rbacv3.Principal {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = s.namespace, value
	}
	return authenticated(regex(
		identityScheme + `.+/ns/` + quoted(namespace) + `/(.+/)?sa/` + quoted(name) + `(/.+)?`,
	))
}

// trustDomainIs matches callers by the trust domain of their identity; value is a pattern. An exact
// domain of the mesh matches all domains of the mesh. Unlike in principals, "cluster.local" is no
// other name for these.
func trustDomainIs(s scope, value string) *rbacv3.Principal {
	domains := []string{value}
	if slices.Contains(s.domains, value) {
		domains = s.domains
	}
	var list []*rbacv3.Principal
	for _, d := range domains {
		list = append(list, authenticated(regex(identityScheme+within(d, `[^/]`)+`/.*`)))
	}
	return principals.or(list)
}

// directIP matches callers by the source address of the connection, an address or CIDR range. It
// matches nothing if value is neither.
func directIP(_ scope, value string) *rbacv3.Principal {
	r, ok := parseCIDR(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: r}}
}

// remoteIP matches callers by the original client address (X-Forwarded-For or PROXY protocol), an
// address or CIDR range. It matches nothing if value is neither.
func remoteIP(_ scope, value string) *rbacv3.Principal {
	r, ok := parseCIDR(value)
	if !ok {
		return principals.nothing()
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: r}}
}

// headerIs matches requests whose header s.name has a value that matches the pattern; "*" matches
// any value. As in istiod, it is a condition on the caller.
func headerIs(s scope, value string) *rbacv3.Principal {
	h := &routev3.HeaderMatcher{Name: s.name}
	if value == present {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: pattern(value)}
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: h}}
}

// parseCIDR returns the range of an address or a CIDR range, with the bits beyond the prefix
// cleared. The bool is false if value is neither.
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
