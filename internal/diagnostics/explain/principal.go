package explain

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// evalPrincipal reports whether a Principal matches the caller, and why. The direct address is the
// peer of the connection; a RemoteIp is compared with a.remote, the first caller's address. An
// unsupported identifier is an error.
func (a rbacCall) evalPrincipal(p *rbacv3.Principal) (finding, error) {
	switch i := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return alwaysHolds(), nil
	case *rbacv3.Principal_AndIds:
		return allOf(i.AndIds.GetIds(), a.evalPrincipal)
	case *rbacv3.Principal_OrIds:
		return anyOf(i.OrIds.GetIds(), a.evalPrincipal)
	case *rbacv3.Principal_NotId:
		f, err := a.evalPrincipal(i.NotId)
		return f.not(), err
	case *rbacv3.Principal_Authenticated_:
		return a.evalAuthenticated(i.Authenticated.GetPrincipalName())
	case *rbacv3.Principal_SourceIp:
		//nolint:staticcheck // EnvoyFilters may still use it
		return addressFinding("the caller's address", a.call.From.Addr(), i.SourceIp), nil
	case *rbacv3.Principal_DirectRemoteIp:
		return addressFinding("the caller's address", a.call.From.Addr(), i.DirectRemoteIp), nil
	case *rbacv3.Principal_RemoteIp:
		return addressFinding("the first caller's address", a.remote, i.RemoteIp), nil
	case *rbacv3.Principal_Header:
		return a.evalHeader(i.Header)
	case *rbacv3.Principal_UrlPath:
		return a.evalPath(i.UrlPath)
	case *rbacv3.Principal_Metadata:
		return a.evalMetadata(i.Metadata) //nolint:staticcheck // EnvoyFilters may still use it
	case *rbacv3.Principal_SourcedMetadata:
		return a.evalSourcedMetadata(i.SourcedMetadata)
	default:
		return finding{}, fmt.Errorf("the principal %T is not supported", i)
	}
}

// evalAuthenticated compares the identity in the caller's certificate with m. If m is nil, every
// caller with TLS fulfills it. Without TLS the caller has no identity, and the condition fails.
func (a rbacCall) evalAuthenticated(m *matcherv3.StringMatcher) (finding, error) {
	switch {
	case !a.secured:
		return finding{why: "the caller has no identity, for the call is not by mutual TLS", miss: near}, nil
	case m == nil:
		return finding{ok: true, why: "the call is by TLS"}, nil
	case a.call.Identity == "":
		return finding{why: "the caller has no identity", miss: near}, nil
	}
	return textFinding("the caller", a.call.Identity, m)
}
