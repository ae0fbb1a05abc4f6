package snapshot

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// merger makes the rows of one group. A client goes by all rules of the group that it may see, and by no others.
type merger struct {
	group ruleGroup
	known []*DestinationRule // rows that there are already
}

// visiblePart is a rule without a workloadSelector, and the namespaces whose clients see it, "*" for all.
type visiblePart struct {
	object   *config.Config
	exportTo []string
}

type partList []visiblePart

func visibleParts(parts []*config.Config, settings *Settings) partList {
	var list partList
	for _, c := range parts {
		spec := config.Spec[*networking.DestinationRule](c)
		if spec.GetWorkloadSelector() != nil {
			continue
		}
		to := exportTo(spec.GetExportTo(), settings.Mesh.GetDefaultDestinationRuleExportTo(), c.Namespace)
		if len(spec.GetExportTo()) == 0 && !slices.Contains(to, "*") && !slices.Contains(to, c.Namespace) {
			to = append(to, c.Namespace) // the mesh's default cannot take a rule away from its own namespace
		}
		slices.Sort(to)
		list = append(list, visiblePart{c, slices.Compact(to)})
	}
	return list
}

// seenBy gives the parts that clients of a namespace see; of "*" those that all see.
func (l partList) seenBy(client string) partList {
	return slices.DeleteFunc(slices.Clone(l), func(p visiblePart) bool {
		return !slices.Contains(p.exportTo, "*") && !slices.Contains(p.exportTo, client)
	})
}

// only gives the parts that nobody but the clients of one namespace sees.
func (l partList) only(client string) partList {
	return slices.DeleteFunc(slices.Clone(l), func(p visiblePart) bool { return !slices.Equal(p.exportTo, []string{client}) })
}

// named gives the namespaces other than their own that parts are exported to by name, sorted.
func (l partList) named(own string) []string {
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

// rows gives the rows for clients of the namespaces, "*" being all others.
func (m *merger) rows(list partList, clients ...string) []*DestinationRule {
	var rows []*DestinationRule
	for _, client := range clients {
		seen := list.seenBy(client)
		if len(seen) == 0 {
			continue
		}
		to := []string{client}
		if !slices.ContainsFunc(seen, func(p visiblePart) bool { return !slices.Equal(p.exportTo, seen[0].exportTo) }) {
			to = seen[0].exportTo // one row for all of them
		}
		parts := make([]*config.Config, len(seen))
		for i, p := range seen {
			parts[i] = p.object
		}
		if r := m.row(parts, to, false); !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// selected gives the rows of the parts with a workloadSelector, one for each that is different, the oldest first.
func (m *merger) selected(parts []*config.Config) []*DestinationRule {
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
		rows = append(rows, m.row(groups[text], []string{m.group.namespace}, true))
	}
	return rows
}

// row gives the row of exactly these parts: one that there is already, or a new one.
func (m *merger) row(parts []*config.Config, exportTo []string, selected bool) *DestinationRule {
	for _, r := range m.known {
		if r.Selects == selected && slices.Equal(r.parts, parts) && slices.Equal(r.exportTo, exportTo) {
			return r
		}
	}
	r := &DestinationRule{
		Host: m.group.host, Namespace: m.group.namespace, Spec: mergedSpec(parts), parts: parts, exportTo: exportTo, Selects: selected,
	}
	for _, c := range parts {
		r.From = append(r.From, c.Key)
	}
	m.known = append(m.known, r)
	return r
}

// mergedSpec merges the rules of one host: the policy of the oldest one that has any counts, and subsets are joined, each name
// once.
func mergedSpec(parts []*config.Config) *networking.DestinationRule {
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
