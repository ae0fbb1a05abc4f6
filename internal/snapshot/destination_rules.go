package snapshot

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
)

// DestinationRule is the rules of one host in one namespace, merged. It is a row.
type DestinationRule struct {
	// Host is resolved to a full name; it may be a wildcard.
	Host      mesh.Hostname
	Namespace string
	// Spec is the merged rule: policy and duplicate subsets are the oldest object's.
	Spec *networking.DestinationRule
	From []config.Key

	parts    []*config.Config
	exportTo []string // namespaces that see it, "*" for all
}

// destinationRules is the index for look-ups by namespace and host.
type destinationRules struct {
	// local has all rules of a namespace, for its own proxies; exported those that others may see.
	local, exported map[string]*hostRules
}

func newDestinationRules() *destinationRules {
	return &destinationRules{local: map[string]*hostRules{}, exported: map[string]*hostRules{}}
}

// hostRules is the rules of one namespace.
type hostRules struct {
	exact     map[mesh.Hostname]*DestinationRule
	wildcards []*DestinationRule // the most specific first
}

// DestinationRule finds the rule that a proxy of the client's namespace uses for a host: from the client's namespace,
// then the service's, then the root namespace, each time the most specific host. nil if there is none.
func (s *Snapshot) DestinationRule(client string, svc mesh.ServiceKey) *DestinationRule {
	rules, root := s.destinationRules, s.Settings.RootNamespace
	if client != root {
		if r := rules.local[client].find(svc.Host, client); r != nil {
			return r
		}
	}
	if svc.Namespace != "" {
		if svc.Namespace == client && client != root {
			// Already searched.
		} else if r := rules.exported[svc.Namespace].find(svc.Host, client); r != nil {
			return r
		}
	}
	if client == root {
		if r := rules.local[root].find(svc.Host, client); r != nil {
			return r
		}
	}
	return rules.exported[root].find(svc.Host, client)
}

func (h *hostRules) find(host mesh.Hostname, client string) *DestinationRule {
	if h == nil {
		return nil
	}
	if r := h.exact[host]; r != nil && r.visibleTo(client) {
		return r
	}
	for _, r := range h.wildcards {
		if r.Host.Covers(host) && r.visibleTo(client) {
			return r
		}
	}
	return nil
}

func (r *DestinationRule) visibleTo(namespace string) bool {
	return r.Namespace == namespace || slices.Contains(r.exportTo, "*") || slices.Contains(r.exportTo, namespace)
}

// ruleGroup is the rules that are merged: those of one host in one namespace.
type ruleGroup struct {
	namespace string
	host      mesh.Hostname
}

// groupOf gives the group of an object; ok is false for one that stands in none.
func groupOf(c *config.Config, settings *Settings) (g ruleGroup, ok bool) {
	if c == nil {
		return ruleGroup{}, false
	}
	spec := config.Spec[*networking.DestinationRule](c)
	if len(spec.GetWorkloadSelector().GetMatchLabels()) > 0 {
		return ruleGroup{}, false // reported as not honoured; applying it to every proxy would be wrong
	}
	return ruleGroup{c.Namespace, mesh.ResolveShortName(spec.Host, c.Namespace, settings.Domain)}, true
}

// rebuilt makes the index for all objects of the kind.
func (d *destinationRules) rebuilt(list []*config.Config, settings *Settings) *destinationRules {
	groups := map[ruleGroup][]*config.Config{}
	for _, c := range list {
		if g, ok := groupOf(c, settings); ok {
			groups[g] = append(groups[g], c)
		}
	}
	next := newDestinationRules()
	for g, parts := range groups {
		next.put(g, parts, d, settings)
	}
	next.sort()
	return next
}

// changed makes the index after a change of the groups given; list is all objects of the kind, sorted by namespace. It gives
// the hosts for which a rule came out different.
func (d *destinationRules) changed(groups map[ruleGroup]struct{}, list []*config.Config, settings *Settings) (*destinationRules, map[mesh.Hostname]struct{}) {
	next := &destinationRules{local: maps.Clone(d.local), exported: maps.Clone(d.exported)}
	hosts := map[string]map[mesh.Hostname]bool{}
	for g := range groups {
		if hosts[g.namespace] == nil {
			hosts[g.namespace] = map[mesh.Hostname]bool{}
		}
		hosts[g.namespace][g.host] = true
	}
	differ := map[mesh.Hostname]struct{}{}
	for ns, touched := range hosts {
		parts := map[ruleGroup][]*config.Config{}
		for _, c := range inNamespace(list, ns) {
			if g, ok := groupOf(c, settings); ok && touched[g.host] {
				parts[g] = append(parts[g], c)
			}
		}
		next.local[ns], next.exported[ns] = next.local[ns].without(touched), next.exported[ns].without(touched)
		for h := range touched {
			if g := (ruleGroup{ns, h}); len(parts[g]) > 0 {
				next.put(g, parts[g], d, settings)
			}
			if next.local[ns].at(h) != d.local[ns].at(h) || next.exported[ns].at(h) != d.exported[ns].at(h) {
				differ[h] = struct{}{}
			}
		}
	}
	next.sort()
	return next, differ
}

// put adds the rows of a group: the one of old that has the same parts, or a new one.
func (d *destinationRules) put(g ruleGroup, parts []*config.Config, old *destinationRules, settings *Settings) {
	row := old.local[g.namespace].row(g.host, parts)
	if row == nil {
		row = mergedRule(g.namespace, g.host, parts, settings)
	}
	d.local[g.namespace] = d.local[g.namespace].with(row)
	var others []*config.Config // those that other namespaces may see
	for _, c := range parts {
		spec := config.Spec[*networking.DestinationRule](c)
		if to := exportTo(spec.ExportTo, settings.Mesh.DefaultDestinationRuleExportTo, c.Namespace); !slices.Equal(to, []string{c.Namespace}) {
			others = append(others, c)
		}
	}
	switch {
	case len(others) == 0:
		return
	case len(others) == len(parts): // the common case: one row for everyone
	default:
		if row = old.exported[g.namespace].row(g.host, others); row == nil {
			row = mergedRule(g.namespace, g.host, others, settings)
		}
	}
	d.exported[g.namespace] = d.exported[g.namespace].with(row)
}

// sort puts the wildcards in the order in which they are tried.
func (d *destinationRules) sort() {
	for _, m := range []map[string]*hostRules{d.local, d.exported} {
		for _, h := range m {
			if h != nil && !slices.IsSortedFunc(h.wildcards, compareRules) { // those that are sorted may be others' too
				slices.SortFunc(h.wildcards, compareRules)
			}
		}
	}
}

func compareRules(a, b *DestinationRule) int { return a.Host.MoreSpecific(b.Host) }

// inNamespace gives the part of a list sorted by namespace that is of one.
func inNamespace(list []*config.Config, namespace string) []*config.Config {
	from, _ := slices.BinarySearchFunc(list, namespace, func(c *config.Config, ns string) int { return cmp.Compare(c.Namespace, ns) })
	to := from
	for to < len(list) && list[to].Namespace == namespace {
		to++
	}
	return list[from:to]
}

// at gives the row of a host as it is written, nil if there is none.
func (h *hostRules) at(host mesh.Hostname) *DestinationRule {
	if h == nil {
		return nil
	}
	if i := slices.IndexFunc(h.wildcards, func(r *DestinationRule) bool { return r.Host == host }); i >= 0 {
		return h.wildcards[i]
	}
	return h.exact[host]
}

// without gives a copy that has no rows of the hosts.
func (h *hostRules) without(hosts map[mesh.Hostname]bool) *hostRules {
	if h == nil {
		return nil
	}
	next := &hostRules{exact: maps.Clone(h.exact), wildcards: slices.Clone(h.wildcards)}
	for host := range hosts {
		delete(next.exact, host)
	}
	next.wildcards = slices.DeleteFunc(next.wildcards, func(r *DestinationRule) bool { return hosts[r.Host] })
	return next
}

// row finds a row of exactly these parts.
func (h *hostRules) row(host mesh.Hostname, parts []*config.Config) *DestinationRule {
	if h == nil {
		return nil
	}
	same := func(r *DestinationRule) bool {
		return r.Host == host && len(r.parts) == len(parts) && !slices.ContainsFunc(parts, func(c *config.Config) bool { return !slices.Contains(r.parts, c) })
	}
	if r := h.at(host); r != nil && same(r) {
		return r
	}
	return nil
}

func (h *hostRules) with(r *DestinationRule) *hostRules {
	if h == nil {
		h = &hostRules{exact: map[mesh.Hostname]*DestinationRule{}}
	}
	if r.Host.IsWildcard() {
		h.wildcards = append(h.wildcards, r)
	} else {
		h.exact[r.Host] = r
	}
	return h
}

// mergedRule merges the rules of one host: the oldest one's policy counts, and subsets are joined, each name once.
func mergedRule(namespace string, host mesh.Hostname, parts []*config.Config, settings *Settings) *DestinationRule {
	parts = slices.SortedFunc(slices.Values(parts), config.Older)
	r := &DestinationRule{Host: host, Namespace: namespace, parts: parts}
	visible := map[string]bool{}
	for i, c := range parts {
		spec := config.Spec[*networking.DestinationRule](c)
		r.From = append(r.From, c.Key)
		for _, ns := range exportTo(spec.ExportTo, settings.Mesh.DefaultDestinationRuleExportTo, c.Namespace) {
			visible[ns] = true
		}
		if i == 0 {
			r.Spec = spec
			continue
		}
		if i == 1 {
			r.Spec = proto.CloneOf(r.Spec)
		}
		if r.Spec.TrafficPolicy == nil {
			r.Spec.TrafficPolicy = spec.TrafficPolicy
		}
		for _, subset := range spec.Subsets {
			if !slices.ContainsFunc(r.Spec.Subsets, func(s *networking.Subset) bool { return s.Name == subset.Name }) {
				r.Spec.Subsets = append(r.Spec.Subsets, subset)
			}
		}
	}
	r.exportTo = slices.Sorted(maps.Keys(visible))
	return r
}

// exportTo resolves an exportTo list: "." is the object's own namespace, "~" nobody; an empty list is the mesh's default.
func exportTo(list, defaults []string, namespace string) []string {
	if len(list) == 0 {
		list = defaults
	}
	if len(list) == 0 {
		return []string{"*"}
	}
	var out []string
	for _, to := range list {
		switch to {
		case ".":
			out = append(out, namespace)
		case "~":
		default:
			out = append(out, to)
		}
	}
	return out
}
