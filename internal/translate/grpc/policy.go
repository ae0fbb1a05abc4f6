package grpc

import (
	"strconv"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// policies gives the filters that decide who may call, as far as gRPC's servers have them (proposal A41).
//
// They cannot ask others: a request about which somebody would be asked (CUSTOM) is refused. What is only tried, or logged, is left
// out.
//
// Nobody reads tokens. Where a RequestAuthentication would have them read (tokens), what is said of them counts as not known; else
// there are none, as for Envoy.
func policies(all []*hcmv3.HttpFilter, tokens bool) []*hcmv3.HttpFilter {
	var list []*hcmv3.HttpFilter
	for _, f := range all {
		c := new(httprbacv3.RBAC)
		if !f.GetTypedConfig().MessageIs(c) {
			continue
		}
		if err := f.GetTypedConfig().UnmarshalTo(c); err != nil {
			panic("grpc: " + err.Error()) // of our own making
		}
		rules := c.GetRules()
		if asks := c.GetShadowRules(); rules == nil && asks.GetAction() == rbacv3.RBAC_DENY && !tried(c) {
			rules = asks
		}
		if rules == nil || rules.GetAction() == rbacv3.RBAC_LOG {
			continue
		}
		name := f.GetName()
		if len(list) > 0 { // gRPC refuses two filters of one name
			name += "." + strconv.Itoa(len(list)+1)
		}
		list = append(list, filter(name, &httprbacv3.RBAC{Rules: reduceRules(rules, tokens)}))
	}
	return list
}

// tried says that shadow rules are those of policies that are only tried (istio.io/dry-run).
func tried(c *httprbacv3.RBAC) bool {
	return strings.HasPrefix(c.GetShadowRulesStatPrefix(), "istio_dry_run_")
}

func reduceRules(rules *rbacv3.RBAC, tokens bool) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rules.GetAction(), Policies: map[string]*rbacv3.Policy{}}
	unknown := doubt{met: rules.GetAction() == rbacv3.RBAC_DENY, tokens: tokens} // what cannot be known counts as a reason to refuse
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

// doubt is what conditions that gRPC does not know are taken for: met or not. So is what is said of tokens, if some are meant to be read.
type doubt struct{ met, tokens bool }

func (d doubt) negated() doubt { return doubt{met: !d.met, tokens: d.tokens} }

// claim is what a condition on a token is taken for.
func (d doubt) claim() bool { return d.met && d.tokens }

// reducePermission replaces what gRPC does not know by what it is to be taken for, which turns around under a negation.
func reducePermission(p *rbacv3.Permission, unknown doubt) *rbacv3.Permission {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_AndRules:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: reduceSet(r.AndRules, unknown)}}
	case *rbacv3.Permission_OrRules:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: reduceSet(r.OrRules, unknown)}}
	case *rbacv3.Permission_NotRule:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: reducePermission(r.NotRule, unknown.negated())}}
	case *rbacv3.Permission_Header:
		if refusedHeader(r.Header) {
			return permission(unknown.met)
		}
		return p
	case *rbacv3.Permission_Any, *rbacv3.Permission_UrlPath, *rbacv3.Permission_DestinationIp, *rbacv3.Permission_DestinationPort,
		*rbacv3.Permission_RequestedServerName, *rbacv3.Permission_Metadata:
		return p
	default:
		return permission(unknown.met)
	}
}

func reduceSet(s *rbacv3.Permission_Set, unknown doubt) *rbacv3.Permission_Set {
	out := new(rbacv3.Permission_Set)
	for _, p := range s.GetRules() {
		out.Rules = append(out.Rules, reducePermission(p, unknown))
	}
	return out
}

// permission is one that always or never matches.
func permission(always bool) *rbacv3.Permission {
	p := &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
	if always {
		return p
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
}

func reducePrincipal(p *rbacv3.Principal, unknown doubt) *rbacv3.Principal {
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_AndIds:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: reduceIDs(r.AndIds, unknown)}}
	case *rbacv3.Principal_OrIds:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: reduceIDs(r.OrIds, unknown)}}
	case *rbacv3.Principal_NotId:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: reducePrincipal(r.NotId, unknown.negated())}}
	case *rbacv3.Principal_Header:
		if refusedHeader(r.Header) {
			return principal(unknown.met)
		}
		return p
	case *rbacv3.Principal_Any, *rbacv3.Principal_Authenticated_, *rbacv3.Principal_DirectRemoteIp, *rbacv3.Principal_UrlPath, *rbacv3.Principal_Metadata:
		return p
	case *rbacv3.Principal_RemoteIp: // the caller's word in a header, which gRPC does not read: it would take the next hop for it
		return p
	case *rbacv3.Principal_SourcedMetadata:
		return principal(unknown.claim())
	default:
		return principal(unknown.met)
	}
}

func reduceIDs(s *rbacv3.Principal_Set, unknown doubt) *rbacv3.Principal_Set {
	out := new(rbacv3.Principal_Set)
	for _, p := range s.GetIds() {
		out.Ids = append(out.Ids, reducePrincipal(p, unknown))
	}
	return out
}

func principal(always bool) *rbacv3.Principal {
	p := &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
	if always {
		return p
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
}

// refusedHeader says whether gRPC refuses rules about a header.
func refusedHeader(h *routev3.HeaderMatcher) bool { return refusedName(h.GetName()) }

func refusedName(name string) bool {
	name = strings.ToLower(name)
	return name == ":scheme" || strings.HasPrefix(name, "grpc-")
}
