package authorization

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

	security "istio.io/api/security/v1beta1"
)

// kind is the kind of calls that a filter sees: requests have all attributes, raw connections some.
type kind int

const (
	requests kind = iota
	connections
)

// newPolicy translates a rule of an AuthorizationPolicy for calls of kind k; an empty rule matches
// every call. widens is set for ALLOW rules. If such a rule has values for an attribute that
// connections lack (if k is connections), or an unknown key in "when", newPolicy returns nil. Then
// the rule matches nothing, including its alternatives, as in istiod. Other rules ignore the
// attribute, and so match more calls; the result is not nil.
func (s scope) newPolicy(r *security.Rule, k kind, widens bool) *rbacv3.Policy {
	s.admits = widens
	c := &compiler{scope: s, kind: k, widens: widens}
	var who []*rbacv3.Principal
	for _, from := range r.GetFrom() {
		p, ok := c.principalOf(from.GetSource())
		if !ok {
			return nil
		}
		who = append(who, p)
	}
	var what []*rbacv3.Permission
	for _, to := range r.GetTo() {
		p, ok := c.permissionOf(to.GetOperation())
		if !ok {
			return nil
		}
		what = append(what, p)
	}
	whens, asked := []*rbacv3.Principal{}, []*rbacv3.Permission{}
	if len(who) > 0 {
		whens = append(whens, principals.or(who))
	}
	if len(what) > 0 {
		asked = append(asked, permissions.or(what))
	}
	for _, w := range r.GetWhen() {
		a, name, known := attributeOf(w.GetKey())
		if !known {
			if widens {
				return nil
			}
			continue
		}
		of := *c
		of.scope.name = name
		if !of.addCondition(a, w.GetValues(), w.GetNotValues(), &whens, &asked) {
			return nil
		}
	}
	return &rbacv3.Policy{
		Permissions: []*rbacv3.Permission{permissions.and(asked)},
		Principals:  []*rbacv3.Principal{principals.and(whens)},
	}
}

// compiler translates the conditions of one rule.
type compiler struct {
	scope
	kind   kind
	widens bool
}

// addCondition appends the matchers of an attribute to who if it is one of callers, else to what.
// It appends none without values. For connections, it appends none for an attribute of requests
// either, and then returns false if c.widens is set: no call can match. In all other cases it
// returns true.
func (c *compiler) addCondition(
	a attribute,
	values, not []string,
	who *[]*rbacv3.Principal,
	what *[]*rbacv3.Permission,
) bool {
	if len(values)+len(not) == 0 {
		return true
	}
	if a.requests && c.kind == connections {
		return !c.widens
	}
	if a.principal != nil {
		*who = append(*who, conditions(principals, c.scope, a.principal, values, not)...)
	} else {
		*what = append(*what, conditions(permissions, c.scope, a.permission, values, not)...)
	}
	return true
}

// conditions returns up to two matchers, which must both match: any of values, and none of not.
// There is none for an empty list. is returns the matcher of one value; s.admits is for values, and
// the opposite for not.
func conditions[T any](t tree[T], s scope, is func(scope, string) T, values, not []string) []T {
	each := func(s scope, values []string) T {
		list := make([]T, 0, len(values))
		for _, v := range values {
			list = append(list, is(s, v))
		}
		return t.or(list)
	}
	var out []T
	if len(values) > 0 {
		out = append(out, each(s, values))
	}
	if len(not) > 0 {
		s.admits = !s.admits
		out = append(out, t.not(each(s, not)))
	}
	return out
}

// principalOf returns the principal for the source of a rule; an empty source is any caller. The
// bool is false if the whole rule matches no connection: c.widens is set and the source has request
// principals. Without c.widens, rules for connections ignore these.
func (c *compiler) principalOf(s *security.Source) (*rbacv3.Principal, bool) {
	var who []*rbacv3.Principal
	for _, f := range []struct {
		is          attribute
		values, not []string
	}{
		{attribute{principal: principalIs}, s.GetPrincipals(), s.GetNotPrincipals()},
		{
			attribute{principal: requestPrincipalIs, requests: true},
			s.GetRequestPrincipals(),
			s.GetNotRequestPrincipals(),
		},
		{attribute{principal: namespaceIs}, s.GetNamespaces(), s.GetNotNamespaces()},
		{attribute{principal: serviceAccountIs}, s.GetServiceAccounts(), s.GetNotServiceAccounts()},
		{attribute{principal: trustDomainIs}, s.GetTrustDomains(), s.GetNotTrustDomains()},
		{attribute{principal: directIP}, s.GetIpBlocks(), s.GetNotIpBlocks()},
		{attribute{principal: remoteIP}, s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks()},
	} {
		if !c.addCondition(f.is, f.values, f.not, &who, nil) {
			return nil, false
		}
	}
	return principals.and(who), true
}

// permissionOf translates the operation of a rule; an empty operation is any call. The bool is
// false if the whole rule matches no connection: c.widens is set and the operation has hosts,
// methods or paths. Without c.widens, rules for connections ignore these.
func (c *compiler) permissionOf(o *security.Operation) (*rbacv3.Permission, bool) {
	var what []*rbacv3.Permission
	for _, f := range []struct {
		is          attribute
		values, not []string
	}{
		{attribute{permission: hostIs, requests: true}, o.GetHosts(), o.GetNotHosts()},
		{attribute{permission: destinationPort}, o.GetPorts(), o.GetNotPorts()},
		{attribute{permission: methodIs, requests: true}, o.GetMethods(), o.GetNotMethods()},
		{attribute{permission: pathIs, requests: true}, o.GetPaths(), o.GetNotPaths()},
	} {
		if !c.addCondition(f.is, f.values, f.not, nil, &what) {
			return nil, false
		}
	}
	return permissions.and(what), true
}
