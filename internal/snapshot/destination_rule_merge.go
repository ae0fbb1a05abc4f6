package snapshot

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// ruleMerger merges the rules of one group into rows. A client uses the merge of all rules of the
// group that it can see.
type ruleMerger struct {
	group    ruleGroup
	existing []*DestinationRule // existing rows, for reuse
}

// visiblePart is a rule without a workloadSelector and the namespaces to which it is exported; "*"
// is all.
type visiblePart struct {
	object   *config.Config
	exportTo []string
}

type partList []visiblePart

// visibleParts returns the objects of parts without a workloadSelector, in the same order, each
// with its resolved exportTo, which is sorted. The default of MeshConfig applies to an empty
// exportTo, but never hides a rule from its own namespace.
func visibleParts(parts []*config.Config, settings *Settings) partList {
	var list partList
	for _, c := range parts {
		spec := config.Spec[*networking.DestinationRule](c)
		if spec.GetWorkloadSelector() != nil {
			continue
		}
		to := resolveExportTo(spec.GetExportTo(), settings.Mesh.GetDefaultDestinationRuleExportTo(), c.Namespace)
		if len(spec.GetExportTo()) == 0 && !slices.Contains(to, "*") && !slices.Contains(to, c.Namespace) {
			// the mesh's default exportTo never hides a rule from its own namespace
			to = append(to, c.Namespace)
		}
		slices.Sort(to)
		list = append(list, visiblePart{c, slices.Compact(to)})
	}
	return list
}

// visibleTo returns a copy of the parts that clients of the namespace client see; for "*", the
// parts that all clients see.
func (l partList) visibleTo(client string) partList {
	return slices.DeleteFunc(slices.Clone(l), func(p visiblePart) bool {
		return !slices.Contains(p.exportTo, "*") && !slices.Contains(p.exportTo, client)
	})
}

// visibleOnlyTo returns a copy of the parts that are exported to exactly the namespace client.
func (l partList) visibleOnlyTo(client string) partList {
	return slices.DeleteFunc(
		slices.Clone(l),
		func(p visiblePart) bool { return !slices.Equal(p.exportTo, []string{client}) },
	)
}

// namedNamespaces returns the namespaces other than own to which parts are exported by name,
// sorted. Each is there once.
func (l partList) namedNamespaces(own string) []string {
	var names []string
	for _, p := range l {
		for _, to := range p.exportTo {
			if to != "*" && to != own {
				names = append(names, to)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mergeVisible returns the rows for clients of the given namespaces; "*" is every other namespace.
// Namespaces share a row if they see the same parts and all of these have the same exportTo. A
// namespace that sees none has no row, so the result may be nil.
func (m *ruleMerger) mergeVisible(list partList, clients ...string) []*DestinationRule {
	var rows []*DestinationRule
	for _, client := range clients {
		seen := list.visibleTo(client)
		if len(seen) == 0 {
			continue
		}
		to := []string{client}
		if !slices.ContainsFunc(seen, func(p visiblePart) bool { return !slices.Equal(p.exportTo, seen[0].exportTo) }) {
			to = seen[0].exportTo // one row for all namespaces of exportTo
		}
		parts := make([]*config.Config, len(seen))
		for i, p := range seen {
			parts[i] = p.object
		}
		if r := m.findOrMerge(parts, to, false); !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// mergeSelected returns the rows of the objects in parts with a workloadSelector, nil without any:
// one per distinct selector, in the order of the first such object. They apply to their own
// namespace only.
func (m *ruleMerger) mergeSelected(parts []*config.Config) []*DestinationRule {
	groups := map[string][]*config.Config{}
	var order []string
	for _, c := range parts {
		sel := config.Spec[*networking.DestinationRule](c).GetWorkloadSelector()
		if sel == nil {
			continue
		}
		text := SelectorText(sel.GetMatchLabels())
		if groups[text] == nil {
			order = append(order, text)
		}
		groups[text] = append(groups[text], c)
	}
	var rows []*DestinationRule
	for _, text := range order {
		rows = append(rows, m.findOrMerge(groups[text], []string{m.group.namespace}, true))
	}
	return rows
}

// findOrMerge returns the row that is merged from exactly these objects, with this exportTo and
// Selects (selected). It reuses a row of m.existing, or creates one and adds it there.
func (m *ruleMerger) findOrMerge(parts []*config.Config, exportTo []string, selected bool) *DestinationRule {
	for _, r := range m.existing {
		if r.Selects == selected && slices.Equal(r.parts, parts) && slices.Equal(r.exportTo, exportTo) {
			return r
		}
	}
	r := &DestinationRule{
		Host: m.group.host, Namespace: m.group.namespace, Spec: mergedSpec(parts), parts: parts, exportTo: exportTo,
		Selects: selected,
	}
	for _, c := range parts {
		r.From = append(r.From, c.Key)
	}
	m.existing = append(m.existing, r)
	return r
}

// mergedSpec returns the merge of the rules of one host, which must be sorted oldest first. The
// trafficPolicy is that of the oldest rule that has one, subsets are concatenated, the first of
// each name is used, and all other fields are the oldest rule's. The TLS settings and the retry
// budget of extensions are added to the trafficPolicy where it has none; without rules the result
// has only these. A single rule without extensions is not copied: the result is its own spec.
func mergedSpec(parts []*config.Config) *networking.DestinationRule {
	parts, extensions, budget := splitExtensions(parts)
	if len(extensions) > 0 || budget != nil {
		return withExtensions(parts, extensions, budget)
	}
	spec := config.Spec[*networking.DestinationRule](parts[0])
	if len(parts) > 1 {
		spec = proto.CloneOf(spec)
	}
	for _, c := range parts[1:] {
		more := config.Spec[*networking.DestinationRule](c)
		if spec.TrafficPolicy == nil {
			spec.TrafficPolicy = more.TrafficPolicy
		}
		for _, subset := range more.Subsets {
			if !slices.ContainsFunc(spec.Subsets, func(s *networking.Subset) bool { return s.Name == subset.Name }) {
				spec.Subsets = append(spec.Subsets, subset)
			}
		}
	}
	return spec
}

// resolveExportTo resolves an exportTo list of an object in namespace: "." is that namespace, and
// "~" is left out, so ["~"] exports to none. An empty list is replaced with the defaults of the
// mesh, and without defaults with "*".
func resolveExportTo(list, defaults []string, namespace string) []string {
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
