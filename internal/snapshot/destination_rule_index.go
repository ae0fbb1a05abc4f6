package snapshot

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// destinationRules is the index of DestinationRules by namespace and host. It is immutable.
type destinationRules struct {
	// local has the rules of a namespace that apply to its own proxies. exported has the rules that
	// apply to other proxies.
	local, exported map[string]*hostRules
	// rootOnly has the rules of the root namespace that are exported only to its own proxies.
	rootOnly *hostRules
	// selectors has the workloadSelectors of each namespace's rules, in the order of the rules'
	// names.
	selectors map[string][]ruleSelector
	// labels are the label names in failoverPriority of each namespace's rules. failoverLabels are
	// the labels that rules of any namespace, or MeshConfig, use for failover.
	labels         map[string]labelNames
	failoverLabels []string
}

// newDestinationRules returns an empty index.
func newDestinationRules() *destinationRules {
	return &destinationRules{
		local:     map[string]*hostRules{},
		exported:  map[string]*hostRules{},
		selectors: map[string][]ruleSelector{},
		labels:    map[string]labelNames{},
	}
}

// ruleSelector is the workloadSelector of a rule. Without labels it selects all workloads of the
// namespace.
type ruleSelector struct {
	name   string
	labels map[string]string
}

// equal reports whether s and o have the same name and labels.
func (s ruleSelector) equal(o ruleSelector) bool {
	return s.name == o.name && maps.Equal(s.labels, o.labels)
}

// hostRules contains the rules of one namespace. If several rules of a host apply to a client, the
// first is used.
type hostRules struct {
	exact     map[mesh.Hostname][]*DestinationRule
	wildcards []*DestinationRule // most specific first
}

// ruleGroup identifies the rules of one host in one namespace, which are merged.
type ruleGroup struct {
	namespace string
	host      mesh.Hostname
}

// ruleGroupOf returns the group of a DestinationRule: its namespace and its host, with short names
// resolved. ok is false if c is nil.
func ruleGroupOf(c *config.Config, settings *Settings) (g ruleGroup, ok bool) {
	if c == nil {
		return ruleGroup{}, false
	}
	return ruleGroup{
		c.Namespace,
		mesh.ResolveShortName(config.Spec[*networking.DestinationRule](c).Host, c.Namespace, settings.Domain),
	}, true
}

// rebuildIndex returns a new index of list, all DestinationRules, with their rows, selectors and
// failover labels. Rows whose inputs are unchanged are taken over from d, which is not modified.
func (d *destinationRules) rebuildIndex(list []*config.Config, settings *Settings) *destinationRules {
	groups := map[ruleGroup][]*config.Config{}
	next := newDestinationRules()
	for _, c := range list {
		if g, ok := ruleGroupOf(c, settings); ok {
			groups[g] = append(groups[g], c)
		}
		next.addSelectors(c)
	}
	for g, parts := range groups {
		next.addGroup(g, parts, d, settings)
	}
	next.sortWildcards()
	next.failoverLabels = collectFailoverLabels(next.labels, settings)
	return next
}

// updateIndex returns the index after a change of objects in groups; d is not modified. list must
// contain all DestinationRules, sorted by namespace. Hosts of groups without objects lose their
// rows. The selectors and failover labels of the groups' namespaces are collected again. The second
// result contains the hosts for which a row, local or exported, differs.
func (d *destinationRules) updateIndex(
	groups map[ruleGroup]struct{},
	list []*config.Config,
	settings *Settings,
) (*destinationRules, map[mesh.Hostname]struct{}) {
	next := &destinationRules{
		local:     maps.Clone(d.local),
		exported:  maps.Clone(d.exported),
		rootOnly:  d.rootOnly,
		selectors: maps.Clone(d.selectors),
		labels:    maps.Clone(d.labels),
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
		delete(next.labels, ns)
		for _, c := range inNamespace(list, ns) {
			if g, ok := ruleGroupOf(c, settings); ok && touched[g.host] {
				parts[g] = append(parts[g], c)
			}
			next.addSelectors(c)
		}
		next.local[ns] = next.local[ns].withoutHosts(touched)
		next.exported[ns] = next.exported[ns].withoutHosts(touched)
		if ns == settings.RootNamespace {
			next.rootOnly = next.rootOnly.withoutHosts(touched)
		}
		for h := range touched {
			if g := (ruleGroup{ns, h}); len(parts[g]) > 0 {
				next.addGroup(g, parts[g], d, settings)
			}
			if !slices.Equal(next.local[ns].rowsOf(h), d.local[ns].rowsOf(h)) ||
				!slices.Equal(next.exported[ns].rowsOf(h), d.exported[ns].rowsOf(h)) {
				differ[h] = struct{}{}
			}
		}
	}
	next.sortWildcards()
	next.failoverLabels = collectFailoverLabels(next.labels, settings)
	return next, differ
}

// addSelectors records the workloadSelector and the failover labels of the DestinationRule c, if it
// has any.
func (d *destinationRules) addSelectors(c *config.Config) {
	if sel := config.Spec[*networking.DestinationRule](c).GetWorkloadSelector(); sel != nil {
		d.selectors[c.Namespace] = append(d.selectors[c.Namespace], ruleSelector{c.Name, sel.GetMatchLabels()})
	}
	names := labelNames{}
	names.addRule(c)
	if len(names) == 0 {
		return
	}
	if d.labels[c.Namespace] == nil {
		d.labels[c.Namespace] = labelNames{}
	}
	maps.Copy(d.labels[c.Namespace], names)
}

// addGroup adds the merged rows of group g, whose objects are parts, to d.local and d.exported, and
// for the root namespace to d.rootOnly. d must have no rows of g yet. It reuses rows of old that
// have the same inputs. It leaves the wildcards unsorted (sortWildcards).
func (d *destinationRules) addGroup(g ruleGroup, parts []*config.Config, old *destinationRules, settings *Settings) {
	merge := &ruleMerger{
		group:    g,
		existing: slices.Concat(old.local[g.namespace].rowsOf(g.host), old.exported[g.namespace].rowsOf(g.host)),
	}
	if g.namespace == settings.RootNamespace {
		merge.existing = append(merge.existing, old.rootOnly.rowsOf(g.host)...)
	}
	parts = slices.SortedFunc(slices.Values(parts), config.CompareAge)
	selected, general := merge.mergeSelected(parts), visibleParts(parts, settings)
	d.local[g.namespace] = d.local[g.namespace].withRows(
		g.host,
		append(selected, merge.mergeVisible(general, g.namespace)...),
	)
	d.exported[g.namespace] = d.exported[g.namespace].withRows(
		g.host,
		merge.mergeVisible(general, append(general.namedNamespaces(g.namespace), "*")...),
	)
	if g.namespace == settings.RootNamespace {
		d.rootOnly = d.rootOnly.withRows(
			g.host,
			append(
				selected[:len(selected):len(selected)],
				merge.mergeVisible(general.visibleOnlyTo(g.namespace), g.namespace)...),
		)
	}
}

// sortWildcards sorts the wildcard rules of each namespace, most specific first. Lists that are
// sorted already may be shared with older snapshots, and are not modified.
func (d *destinationRules) sortWildcards() {
	for _, h := range slices.Concat(slices.Collect(maps.Values(d.local)), slices.Collect(maps.Values(d.exported)),
		[]*hostRules{d.rootOnly}) {
		// sorted lists may be shared with older snapshots
		if h != nil && !slices.IsSortedFunc(h.wildcards, compareRules) {
			slices.SortStableFunc(h.wildcards, compareRules)
		}
	}
}

// compareRules orders rules by host, the most specific first.
func compareRules(a, b *DestinationRule) int { return a.Host.MoreSpecific(b.Host) }

// inNamespace returns the objects of one namespace from list, which must be sorted by namespace. It
// is a part of list, empty if there are none.
func inNamespace(list []*config.Config, namespace string) []*config.Config {
	from, _ := slices.BinarySearchFunc(
		list,
		namespace,
		func(c *config.Config, ns string) int { return cmp.Compare(c.Namespace, ns) },
	)
	to := from
	for to < len(list) && list[to].Namespace == namespace {
		to++
	}
	return list[from:to]
}

// rowsOf returns the rows of exactly this host, which may be a wildcard, or nil. Rows of covering
// wildcards are not included. h may be nil.
func (h *hostRules) rowsOf(host mesh.Hostname) []*DestinationRule {
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

// withoutHosts returns a copy of h without the rows of the hosts, or nil if h is nil.
func (h *hostRules) withoutHosts(hosts map[mesh.Hostname]bool) *hostRules {
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

// withRows adds the rows of a host that has none yet. It modifies and returns h, or returns a new
// hostRules if h is nil. Without rows it returns h unchanged.
func (h *hostRules) withRows(host mesh.Hostname, rows []*DestinationRule) *hostRules {
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
