package snapshot

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// destinationRules is the index for look-ups by namespace and host.
type destinationRules struct {
	// local has the rules of a namespace for its own proxies, exported those for others.
	local, exported map[string]*hostRules
	// private has the rules of the root namespace that only its own proxies see.
	private *hostRules
	// selectors are those of each namespace's rules that have one, by the rule's name.
	selectors map[string][]ruleSelector
	// near is the labels that the rules of each namespace name in failoverPriority, nearLabels those of all, and of the mesh.
	near       map[string]labelNames
	nearLabels []string
}

func newDestinationRules() *destinationRules {
	return &destinationRules{local: map[string]*hostRules{}, exported: map[string]*hostRules{}, selectors: map[string][]ruleSelector{}, near: map[string]labelNames{}}
}

// ruleSelector is the workloadSelector of a rule. Without labels it selects all.
type ruleSelector struct {
	name   string
	labels map[string]string
}

func (s ruleSelector) equal(o ruleSelector) bool {
	return s.name == o.name && maps.Equal(s.labels, o.labels)
}

// hostRules is the rules of one namespace. Of several for one host the first that is for a client counts.
type hostRules struct {
	exact     map[mesh.Hostname][]*DestinationRule
	wildcards []*DestinationRule // the most specific first
}

// ruleGroup is the rules of one host in one namespace, which are merged.
type ruleGroup struct {
	namespace string
	host      mesh.Hostname
}

// groupOf gives the group of an object; ok is false for none.
func groupOf(c *config.Config, settings *Settings) (g ruleGroup, ok bool) {
	if c == nil {
		return ruleGroup{}, false
	}
	return ruleGroup{c.Namespace, mesh.ResolveShortName(config.Spec[*networking.DestinationRule](c).Host, c.Namespace, settings.Domain)}, true
}

// rebuilt makes the index for all objects of the kind.
func (d *destinationRules) rebuilt(list []*config.Config, settings *Settings) *destinationRules {
	groups := map[ruleGroup][]*config.Config{}
	next := newDestinationRules()
	for _, c := range list {
		if g, ok := groupOf(c, settings); ok {
			groups[g] = append(groups[g], c)
		}
		next.note(c)
	}
	for g, parts := range groups {
		next.put(g, parts, d, settings)
	}
	next.sort()
	next.nearLabels = nearest(next.near, settings)
	return next
}

// changed makes the index after a change of the groups given; list is all objects of the kind, sorted by namespace. It gives
// the hosts for which a rule came out different.
func (d *destinationRules) changed(groups map[ruleGroup]struct{}, list []*config.Config, settings *Settings) (*destinationRules, map[mesh.Hostname]struct{}) {
	next := &destinationRules{
		local: maps.Clone(d.local), exported: maps.Clone(d.exported), private: d.private, selectors: maps.Clone(d.selectors), near: maps.Clone(d.near),
	}
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
		delete(next.selectors, ns)
		delete(next.near, ns)
		for _, c := range inNamespace(list, ns) {
			if g, ok := groupOf(c, settings); ok && touched[g.host] {
				parts[g] = append(parts[g], c)
			}
			next.note(c)
		}
		next.local[ns], next.exported[ns] = next.local[ns].without(touched), next.exported[ns].without(touched)
		if ns == settings.RootNamespace {
			next.private = next.private.without(touched)
		}
		for h := range touched {
			if g := (ruleGroup{ns, h}); len(parts[g]) > 0 {
				next.put(g, parts[g], d, settings)
			}
			if !slices.Equal(next.local[ns].at(h), d.local[ns].at(h)) || !slices.Equal(next.exported[ns].at(h), d.exported[ns].at(h)) {
				differ[h] = struct{}{}
			}
		}
	}
	next.sort()
	next.nearLabels = nearest(next.near, settings)
	return next, differ
}

// note takes up what of an object is a matter of who a proxy is.
func (d *destinationRules) note(c *config.Config) {
	if sel := config.Spec[*networking.DestinationRule](c).GetWorkloadSelector(); sel != nil {
		d.selectors[c.Namespace] = append(d.selectors[c.Namespace], ruleSelector{c.Name, sel.GetMatchLabels()})
	}
	names := labelNames{}
	names.ofRule(c)
	if len(names) == 0 {
		return
	}
	if d.near[c.Namespace] == nil {
		d.near[c.Namespace] = labelNames{}
	}
	maps.Copy(d.near[c.Namespace], names)
}

// put adds the rows of a group that has the parts given: those of old that have the same parts, or new ones.
func (d *destinationRules) put(g ruleGroup, parts []*config.Config, old *destinationRules, settings *Settings) {
	merge := &merger{group: g, known: slices.Concat(old.local[g.namespace].at(g.host), old.exported[g.namespace].at(g.host))}
	if g.namespace == settings.RootNamespace {
		merge.known = append(merge.known, old.private.at(g.host)...)
	}
	parts = slices.SortedFunc(slices.Values(parts), config.Older)
	selected, general := merge.selected(parts), visibleParts(parts, settings)
	d.local[g.namespace] = d.local[g.namespace].with(g.host, append(selected, merge.rows(general, g.namespace)...))
	d.exported[g.namespace] = d.exported[g.namespace].with(g.host, merge.rows(general, append(general.named(g.namespace), "*")...))
	if g.namespace == settings.RootNamespace {
		d.private = d.private.with(g.host, append(selected[:len(selected):len(selected)], merge.rows(general.only(g.namespace), g.namespace)...))
	}
}

// sort puts the wildcards in the order in which they are tried.
func (d *destinationRules) sort() {
	for _, h := range slices.Concat(slices.Collect(maps.Values(d.local)), slices.Collect(maps.Values(d.exported)), []*hostRules{d.private}) {
		if h != nil && !slices.IsSortedFunc(h.wildcards, compareRules) { // those that are sorted may be others' too
			slices.SortStableFunc(h.wildcards, compareRules)
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

// at gives the rows of a host as it is written.
func (h *hostRules) at(host mesh.Hostname) []*DestinationRule {
	if h == nil {
		return nil
	}
	if !host.IsWildcard() {
		return h.exact[host]
	}
	var rows []*DestinationRule
	for _, r := range h.wildcards {
		if r.Host == host {
			rows = append(rows, r)
		}
	}
	return rows
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

// with adds the rows of a host, of which there are none yet.
func (h *hostRules) with(host mesh.Hostname, rows []*DestinationRule) *hostRules {
	if len(rows) == 0 {
		return h
	}
	if h == nil {
		h = &hostRules{exact: map[mesh.Hostname][]*DestinationRule{}}
	}
	if host.IsWildcard() {
		h.wildcards = append(h.wildcards, rows...)
	} else {
		h.exact[host] = rows
	}
	return h
}
