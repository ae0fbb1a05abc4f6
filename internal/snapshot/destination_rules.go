package snapshot

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DestinationRule is the rules of one host in one namespace, merged: those that one kind of client may see. It is a row.
type DestinationRule struct {
	// Host is resolved to a full name; it may be a wildcard.
	Host      mesh.Hostname
	Namespace string
	// Spec is the merged rule: policy and duplicate subsets are the oldest object's.
	Spec *networking.DestinationRule
	From []config.Key
	// Selects says that it is only for clients that the workloadSelector of its objects, which is the same, selects.
	Selects bool

	parts []*config.Config // the oldest first
	// exportTo is the namespaces whose clients it is for, "*" for all.
	exportTo []string
}

// RuleNames names the DestinationRules with a workloadSelector that select a proxy, all of the proxy's own namespace, each
// followed by ";". Proxies with equal names go by the same rules. The zero value is none.
type RuleNames string

// Has says whether a rule is among the names.
func (n RuleNames) Has(name string) bool {
	return strings.HasPrefix(string(n), name+";") || strings.Contains(string(n), ";"+name+";")
}

// RuleNames gives the names of the DestinationRules of a namespace whose workloadSelector selects the labels.
func (s *Snapshot) RuleNames(namespace string, labels map[string]string) RuleNames {
	var names strings.Builder
	for _, sel := range s.destinationRules.selectors[namespace] {
		if len(sel.labels) == 0 || Selects(sel.labels, labels) {
			names.WriteString(sel.name)
			names.WriteByte(';')
		}
	}
	return RuleNames(names.String())
}

// SameRuleSelectors says whether the same rules of a namespace have the same selectors in both snapshots: then no proxy's
// RuleNames differ.
func (s *Snapshot) SameRuleSelectors(o *Snapshot, namespace string) bool {
	return slices.EqualFunc(s.destinationRules.selectors[namespace], o.destinationRules.selectors[namespace], ruleSelector.equal)
}

// DestinationRule finds the rule that proxies of the client's namespace use for a host, none of whose workloadSelectors
// selects them; see SelectedRule.
func (s *Snapshot) DestinationRule(client string, svc mesh.ServiceKey) *DestinationRule {
	return s.SelectedRule(client, "", svc)
}

// SelectedRule finds the rule that a proxy of the client's namespace uses for a host, nil if there is none: from the client's
// namespace, then the service's, then the root namespace, each time the most specific host. names are the rules that select
// the proxy: for one host they come before those for all.
//
// The root namespace is where rules for everybody are. So for its own proxies, gateways as a rule, those come last too: first
// what is exported to nobody else, then the service's.
func (s *Snapshot) SelectedRule(client string, names RuleNames, svc mesh.ServiceKey) *DestinationRule {
	rules, root := s.destinationRules, s.Settings.RootNamespace
	own := rules.local[client]
	if client == root {
		own = rules.private
	}
	if r := own.find(svc.Host, client, names); r != nil {
		return r
	}
	if svc.Namespace != "" && (svc.Namespace != client || client == root) {
		if r := rules.exported[svc.Namespace].find(svc.Host, client, ""); r != nil {
			return r
		}
	}
	return rules.exported[root].find(svc.Host, client, "")
}

// RulesOf gives all rules that some proxy of the client's namespace may use for a host: those that select some proxies only,
// and the one for the others.
func (s *Snapshot) RulesOf(client string, svc mesh.ServiceKey) []*DestinationRule {
	var list []*DestinationRule
	for _, sel := range s.destinationRules.selectors[client] {
		if r := s.SelectedRule(client, RuleNames(sel.name+";"), svc); r != nil && r.Selects && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	if r := s.DestinationRule(client, svc); r != nil {
		list = append(list, r)
	}
	return list
}

// find gives the rule of the most specific host that is for the client.
func (h *hostRules) find(host mesh.Hostname, client string, names RuleNames) *DestinationRule {
	if h == nil {
		return nil
	}
	for _, r := range h.exact[host] {
		if r.isFor(client, names) {
			return r
		}
	}
	for _, r := range h.wildcards {
		if r.Host.Covers(host) && r.isFor(client, names) {
			return r
		}
	}
	return nil
}

func (r *DestinationRule) isFor(client string, names RuleNames) bool {
	if r.Selects && !names.Has(r.parts[0].Name) { // what selects one part selects all
		return false
	}
	return r.exportTo[0] == "*" || slices.Contains(r.exportTo, client)
}
