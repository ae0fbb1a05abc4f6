package snapshot

import (
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

// rebuilt makes the index for the objects given (all of the kind, sorted), keeping every row whose parts are the same.
func (d *destinationRules) rebuilt(list []*config.Config, settings *Settings) *destinationRules {
	type group struct {
		namespace string
		host      mesh.Hostname
	}
	local, exported := map[group][]*config.Config{}, map[group][]*config.Config{}
	for _, c := range list {
		spec := config.Spec[*networking.DestinationRule](c)
		if len(spec.GetWorkloadSelector().GetMatchLabels()) > 0 {
			continue // reported as not honoured; applying it to every proxy would be wrong
		}
		g := group{c.Namespace, mesh.ResolveShortName(spec.Host, c.Namespace, settings.Domain)}
		local[g] = append(local[g], c)
		if to := exportTo(spec.ExportTo, settings.Mesh.DefaultDestinationRuleExportTo, c.Namespace); !slices.Equal(to, []string{c.Namespace}) {
			exported[g] = append(exported[g], c)
		}
	}
	next := &destinationRules{local: map[string]*hostRules{}, exported: map[string]*hostRules{}}
	for g, parts := range local {
		row := d.local[g.namespace].row(g.host, parts)
		if row == nil {
			row = mergedRule(g.namespace, g.host, parts, settings)
		}
		next.local[g.namespace] = next.local[g.namespace].with(row)
		others := exported[g]
		switch {
		case len(others) == 0:
			continue
		case len(others) == len(parts): // the common case: one row for everyone
		default:
			if row = d.exported[g.namespace].row(g.host, others); row == nil {
				row = mergedRule(g.namespace, g.host, others, settings)
			}
		}
		next.exported[g.namespace] = next.exported[g.namespace].with(row)
	}
	for _, m := range []map[string]*hostRules{next.local, next.exported} {
		for _, h := range m {
			slices.SortFunc(h.wildcards, func(a, b *DestinationRule) int { return a.Host.MoreSpecific(b.Host) })
		}
	}
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
	if r := h.exact[host]; r != nil && same(r) {
		return r
	}
	if i := slices.IndexFunc(h.wildcards, same); i >= 0 {
		return h.wildcards[i]
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
