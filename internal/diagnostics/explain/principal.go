package explain

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// principal evaluates a Principal, which matches the caller. The error reports an unsupported
// identifier.
func (a asked) principal(p *rbacv3.Principal) (finding, error) {
	switch i := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return everything(), nil
	case *rbacv3.Principal_AndIds:
		return allOf(i.AndIds.GetIds(), a.principal)
	case *rbacv3.Principal_OrIds:
		return anyOf(i.OrIds.GetIds(), a.principal)
	case *rbacv3.Principal_NotId:
		f, err := a.principal(i.NotId)
		return f.not(), err
	case *rbacv3.Principal_Authenticated_:
		return a.authenticated(i.Authenticated.GetPrincipalName())
	case *rbacv3.Principal_SourceIp:
		return addressFinding("the caller's address", a.call.From.Addr(), i.SourceIp), nil //nolint:staticcheck // EnvoyFilters may still use it
	case *rbacv3.Principal_DirectRemoteIp:
		return addressFinding("the caller's address", a.call.From.Addr(), i.DirectRemoteIp), nil
	case *rbacv3.Principal_RemoteIp:
		return addressFinding("the first caller's address", a.remote, i.RemoteIp), nil
	case *rbacv3.Principal_Header:
		return a.header(i.Header)
	case *rbacv3.Principal_UrlPath:
		return a.path(i.UrlPath)
	case *rbacv3.Principal_Metadata:
		return a.said(i.Metadata) //nolint:staticcheck // EnvoyFilters may still use it
	case *rbacv3.Principal_SourcedMetadata:
		return a.sourced(i.SourcedMetadata)
	default:
		return finding{}, fmt.Errorf("the principal %T is not followed", i)
	}
}

// authenticated compares the identity in the caller's certificate. Without TLS the caller has no
// identity, and the condition fails.
func (a asked) authenticated(m *matcherv3.StringMatcher) (finding, error) {
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
