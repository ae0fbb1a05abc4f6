package authorization

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// At returns the filters of connections, reduced to the ports for which comes returns true. It
// removes rules that match only other ports, and RBAC filters without remaining rules, each with
// its authorizer; filters of ALLOW policies stay. So a policy for one port of a workload does not
// change filter chains of its other ports, whose connections Envoy would drain. The list filters
// and its elements are not modified.
func At(filters []*listenerv3.Filter, comes func(port uint32) bool) []*listenerv3.Filter {
	var list []*listenerv3.Filter
	silent := false
	for _, f := range filters {
		if f.GetName() != tcpFilter {
			if !silent { // An authorizer depends on the shadow rules before it.
				list = append(list, f)
			}
			continue
		}
		rules := new(tcprbacv3.RBAC)
		if err := f.GetTypedConfig().UnmarshalTo(rules); err != nil {
			panic("authorization: " + err.Error()) // generated
		}
		rules.Rules, rules.ShadowRules = rulesAt(rules.Rules, comes), rulesAt(rules.ShadowRules, comes)
		if silent = rules.Rules == nil && rules.ShadowRules == nil; !silent {
			list = append(
				list,
				&listenerv3.Filter{
					Name:       tcpFilter,
					ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(rules)},
				},
			)
		}
	}
	return list
}

// rulesAt deletes from r, in place, the rules that match only ports for which comes returns false.
// It returns r, or nil if r is nil or no rule is left. ALLOW rules never become nil: without any
// rule they refuse everything.
func rulesAt(r *rbacv3.RBAC, comes func(uint32) bool) *rbacv3.RBAC {
	if r == nil {
		return nil
	}
	for name, p := range r.Policies {
		if !anyAt(p.Permissions, comes) {
			delete(r.Policies, name)
		}
	}
	if len(r.Policies) == 0 && r.Action != rbacv3.RBAC_ALLOW {
		return nil
	}
	return r
}

// anyAt reports whether one of list may match a connection to a port for which comes returns true
// (mayHold).
func anyAt(list []*rbacv3.Permission, comes func(uint32) bool) bool {
	for _, p := range list {
		if mayHold(p, comes) {
			return true
		}
	}
	return false
}

// mayHold reports whether a permission may match a connection to one of the ports for which comes
// returns true. It returns true if that is not known: only conditions on the port, combined by
// "and" and "or", are evaluated.
func mayHold(p *rbacv3.Permission, comes func(uint32) bool) bool {
	switch p := p.GetRule().(type) {
	case *rbacv3.Permission_DestinationPort:
		return comes(p.DestinationPort)
	case *rbacv3.Permission_OrRules:
		return anyAt(p.OrRules.GetRules(), comes)
	case *rbacv3.Permission_AndRules:
		for _, one := range p.AndRules.GetRules() {
			if !mayHold(one, comes) {
				return false
			}
		}
	}
	return true
}
