package grpc

import (
	"strconv"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// reducePolicies returns the filters of access policies that gRPC servers support (proposal A41),
// from the HTTP filters of an Authorization. The first keeps its name, the others get a number.
//
// Servers cannot call an external authorizer, so requests that CUSTOM policies match are refused.
// Dry-run and AUDIT policies are omitted, and so are filters other than RBAC.
//
// Servers do not read tokens. If tokens is set, a RequestAuthentication would have them validated,
// and conditions on tokens are unknown. Otherwise they are not met, as in Envoy.
func reducePolicies(all []*hcmv3.HttpFilter, tokens bool) []*hcmv3.HttpFilter {
	var list []*hcmv3.HttpFilter
	for _, f := range all {
		c := new(httprbacv3.RBAC)
		if !f.GetTypedConfig().MessageIs(c) {
			continue
		}
		if err := f.GetTypedConfig().UnmarshalTo(c); err != nil {
			panic("grpc: " + err.Error()) // generated
		}
		rules := c.GetRules()
		if asks := c.GetShadowRules(); rules == nil && asks.GetAction() == rbacv3.RBAC_DENY && !isDryRun(c) {
			rules = asks
		}
		if rules == nil || rules.GetAction() == rbacv3.RBAC_LOG {
			continue
		}
		name := f.GetName()
		if len(list) > 0 { // gRPC refuses two filters with one name.
			name += "." + strconv.Itoa(len(list)+1)
		}
		list = append(list, httpFilter(name, &httprbacv3.RBAC{Rules: reduceRules(rules, tokens)}))
	}
	return list
}

// isDryRun reports whether the shadow rules of c belong to dry-run policies (istio.io/dry-run). It
// goes by the prefix of their statistics, "istio_dry_run_".
func isDryRun(c *httprbacv3.RBAC) bool {
	return strings.HasPrefix(c.GetShadowRulesStatPrefix(), "istio_dry_run_")
}

// reduceRules returns rules without conditions that gRPC does not support. These are replaced by
// constants: as met in DENY rules, as not met in ALLOW rules, so that a doubt refuses the request.
// tokens is set if conditions on tokens are unknown too.
func reduceRules(rules *rbacv3.RBAC, tokens bool) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rules.GetAction(), Policies: map[string]*rbacv3.Policy{}}
	// An unknown condition is a reason to refuse.
	unknown := unknowns{met: rules.GetAction() == rbacv3.RBAC_DENY, tokens: tokens}
	for name, p := range rules.GetPolicies() {
		reduced := new(rbacv3.Policy)
		for _, permission := range p.GetPermissions() {
			reduced.Permissions = append(reduced.Permissions, reducePermission(permission, unknown))
		}
		for _, principal := range p.GetPrincipals() {
			reduced.Principals = append(reduced.Principals, reducePrincipal(principal, unknown))
		}
		out.Policies[name] = reduced
	}
	return out
}

// unknowns is how conditions are evaluated that gRPC does not support: as met or not. tokens is set
// if conditions on tokens are unknown too.
type unknowns struct{ met, tokens bool }

// negated returns d for the operand of a negation: conditions that count as met outside of it count
// as not met inside, and vice versa.
func (d unknowns) negated() unknowns { return unknowns{met: !d.met, tokens: d.tokens} }

// claim reports whether a condition on a token is evaluated as met. That requires d.met and
// d.tokens.
func (d unknowns) claim() bool { return d.met && d.tokens }

// reducePermission replaces conditions that gRPC does not support by the constant unknown.met;
// inside a negation, by its opposite. It descends into and, or and not. Supported are any, paths,
// destination address and port, server name, metadata, and headers that gRPC does not refuse
// (isRefusedHeader); these are returned unchanged.
func reducePermission(p *rbacv3.Permission, unknown unknowns) *rbacv3.Permission {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_AndRules:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: reduceSet(r.AndRules, unknown)}}
	case *rbacv3.Permission_OrRules:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: reduceSet(r.OrRules, unknown)}}
	case *rbacv3.Permission_NotRule:
		return &rbacv3.Permission{
			Rule: &rbacv3.Permission_NotRule{NotRule: reducePermission(r.NotRule, unknown.negated())},
		}
	case *rbacv3.Permission_Header:
		if isRefusedHeader(r.Header) {
			return constantPermission(unknown.met)
		}
		return p
	case *rbacv3.Permission_Any, *rbacv3.Permission_UrlPath, *rbacv3.Permission_DestinationIp,
		*rbacv3.Permission_DestinationPort,
		*rbacv3.Permission_RequestedServerName, *rbacv3.Permission_Metadata:
		return p
	default:
		return constantPermission(unknown.met)
	}
}

// reduceSet returns a new set with each permission of s reduced (reducePermission). s may be nil.
func reduceSet(s *rbacv3.Permission_Set, unknown unknowns) *rbacv3.Permission_Set {
	out := new(rbacv3.Permission_Set)
	for _, p := range s.GetRules() {
		out.Rules = append(out.Rules, reducePermission(p, unknown))
	}
	return out
}

// constantPermission returns a permission that always or never matches.
func constantPermission(always bool) *rbacv3.Permission {
	p := &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
	if always {
		return p
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
}

// reducePrincipal replaces conditions on the caller that gRPC does not support by the constant
// unknown.met; inside a negation, by its opposite. Claims of tokens become unknown.claim().
// Supported are any, identities, addresses, paths, metadata, and headers that gRPC does not refuse;
// these are returned unchanged.
func reducePrincipal(p *rbacv3.Principal, unknown unknowns) *rbacv3.Principal {
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_AndIds:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: reduceIDs(r.AndIds, unknown)}}
	case *rbacv3.Principal_OrIds:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: reduceIDs(r.OrIds, unknown)}}
	case *rbacv3.Principal_NotId:
		return &rbacv3.Principal{
			Identifier: &rbacv3.Principal_NotId{NotId: reducePrincipal(r.NotId, unknown.negated())},
		}
	case *rbacv3.Principal_Header:
		if isRefusedHeader(r.Header) {
			return constantPrincipal(unknown.met)
		}
		return p
	case *rbacv3.Principal_Any, *rbacv3.Principal_Authenticated_, *rbacv3.Principal_DirectRemoteIp,
		*rbacv3.Principal_UrlPath, *rbacv3.Principal_Metadata:
		return p
	// It is derived from a header that gRPC does not read: gRPC uses the address of the connection.
	case *rbacv3.Principal_RemoteIp:
		return p
	case *rbacv3.Principal_SourcedMetadata:
		return constantPrincipal(unknown.claim())
	default:
		return constantPrincipal(unknown.met)
	}
}

// reduceIDs returns a new set with each principal of s reduced (reducePrincipal). s may be nil.
func reduceIDs(s *rbacv3.Principal_Set, unknown unknowns) *rbacv3.Principal_Set {
	out := new(rbacv3.Principal_Set)
	for _, p := range s.GetIds() {
		out.Ids = append(out.Ids, reducePrincipal(p, unknown))
	}
	return out
}

// constantPrincipal returns a principal that always or never matches.
func constantPrincipal(always bool) *rbacv3.Principal {
	p := &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
	if always {
		return p
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
}

// isRefusedHeader reports whether gRPC refuses RBAC rules about a header (isRefusedName).
func isRefusedHeader(h *routev3.HeaderMatcher) bool { return isRefusedName(h.GetName()) }

// isRefusedName reports whether gRPC refuses RBAC rules about a header: ":scheme", and names that
// begin with "grpc-", in any case.
func isRefusedName(name string) bool {
	name = strings.ToLower(name)
	return name == ":scheme" || strings.HasPrefix(name, "grpc-")
}
