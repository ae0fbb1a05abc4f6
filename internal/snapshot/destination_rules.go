package snapshot

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DestinationRule is the merge of the DestinationRules of one host in one namespace that a group of
// clients sees. It is immutable, and its pointer changes only with its content.
type DestinationRule struct {
	// Host is a fully qualified name, possibly a wildcard.
	Host      mesh.Hostname
	Namespace string
	// Spec is the merged rule. The oldest object takes precedence in the policy and for duplicate
	// subsets.
	Spec *networking.DestinationRule
	From []config.Key
	// Selects reports whether the objects have a workloadSelector, the same in all of them. The
	// rule then applies only to the selected clients.
	Selects bool

	parts []*config.Config // oldest first
	// exportTo contains the namespaces of the clients that see the rule; "*" is all.
	exportTo []string
}

// RuleNames lists the DestinationRules with a workloadSelector that selects a proxy, all of them in
// the proxy's own namespace. Each name is followed by ";". Proxies with equal names use the same
// rules. The zero value is empty.
type RuleNames string

// Has reports whether the list contains a rule with exactly this name.
func (n RuleNames) Has(name string) bool {
	return strings.HasPrefix(string(n), name+";") || strings.Contains(string(n), ";"+name+";")
}

// RuleNames returns the names of the DestinationRules of a namespace whose workloadSelector matches
// labels, sorted. It is empty if there are none. A selector without labels matches all; a rule
// without a selector is not listed.
func (s *Snapshot) RuleNames(namespace string, labels map[string]string) RuleNames {
	var names strings.Builder
	for _, sel := range s.destinationRules.selectors[namespace] {
		if len(sel.labels) == 0 || SelectorMatches(sel.labels, labels) {
			names.WriteString(sel.name)
			names.WriteByte(';')
		}
	}
	return RuleNames(names.String())
}

// SameRuleSelectors reports whether the workloadSelectors of a namespace's rules are equal in both
// snapshots, so that RuleNames returns the same for every proxy.
func (s *Snapshot) SameRuleSelectors(o *Snapshot, namespace string) bool {
	return slices.EqualFunc(
		s.destinationRules.selectors[namespace],
		o.destinationRules.selectors[namespace],
		ruleSelector.equal,
	)
}

// DestinationRule returns the rule that proxies in the namespace client use for a service if no
// workloadSelector selects them, or nil; see SelectedRule.
func (s *Snapshot) DestinationRule(client string, svc mesh.ServiceKey) *DestinationRule {
	return s.SelectedRule(client, "", svc)
}

// SelectedRule returns the rule that a proxy in namespace client uses for a service, or nil. It
// looks in the client's namespace, then in that of the service, then in the root namespace, each
// time for the most specific host. names are the rules whose workloadSelector selects the proxy;
// for the same host they take precedence over rules without one.
//
// The root namespace contains the defaults of the mesh. Its own proxies, usually gateways,
// therefore use them last too: first the rules that are exported to the root namespace alone, then
// the rules of the service's namespace.
func (s *Snapshot) SelectedRule(client string, names RuleNames, svc mesh.ServiceKey) *DestinationRule {
	rules, root := s.destinationRules, s.Settings.RootNamespace
	own := rules.local[client]
	if client == root {
		own = rules.rootOnly
	}
	if r := own.mostSpecific(svc.Host, client, names); r != nil {
		return r
	}
	if svc.Namespace != "" && (svc.Namespace != client || client == root) {
		if r := rules.exported[svc.Namespace].mostSpecific(svc.Host, client, ""); r != nil {
			return r
		}
	}
	return rules.exported[root].mostSpecific(svc.Host, client, "")
}

// RulesOf returns all rules that some proxy in the namespace client may use for a service, or nil.
// The rules with a workloadSelector are first, by name and without duplicates. The last one is the
// rule for all other proxies, if there is one.
func (s *Snapshot) RulesOf(client string, svc mesh.ServiceKey) []*DestinationRule {
	var list []*DestinationRule
	for _, sel := range s.destinationRules.selectors[client] {
		if r := s.SelectedRule(client, RuleNames(sel.name+";"), svc); r != nil && r.Selects &&
			!slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	if r := s.DestinationRule(client, svc); r != nil {
		list = append(list, r)
	}
	return list
}

// mostSpecific returns the rule with the most specific matching host that applies to the client
// (appliesTo), or nil: a rule for exactly the host, else for the longest wildcard. h may be nil. Of
// several rules with the same host the first that applies is used.
func (h *hostRules) mostSpecific(host mesh.Hostname, client string, names RuleNames) *DestinationRule {
	if h == nil {
		return nil
	}
	for _, r := range h.exact[host] {
		if r.appliesTo(client, names) {
			return r
		}
	}
	for _, r := range h.wildcards {
		if r.Host.Covers(host) && r.appliesTo(client, names) {
			return r
		}
	}
	return nil
}

// appliesTo reports whether the rule is exported to the namespace client and, if it has a
// workloadSelector, names contains it.
func (r *DestinationRule) appliesTo(client string, names RuleNames) bool {
	if r.Selects && !names.Has(r.parts[0].Name) { // all parts have the same selector
		return false
	}
	return r.exportTo[0] == "*" || slices.Contains(r.exportTo, client)
}
