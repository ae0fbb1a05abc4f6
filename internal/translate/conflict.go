package translate

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// Conflicts returns the Problems of objects without their full effect for one View, because others
// take precedence or its proxies cannot apply them. These are services, rules, Gateways, Sidecars,
// Telemetries, policies, plugins and EnvoyFilters. The list is not sorted, and may have duplicates.
func (t *Table) Conflicts(v *view.View) []config.Problem {
	return slices.Concat(t.sharedConflicts(v), t.envoys.listeners.InboundProblems(v))
}

// ConflictsOf returns the Conflicts of the Views of keys, sorted and without duplicates. It is
// cheaper than Conflicts for each: keys that differ only in the workload's ports share all but the
// InboundProblems, unless they have EnvoyFilter patches.
func (t *Table) ConflictsOf(s *snapshot.Snapshot, keys []view.Key) []config.Problem {
	shared, known := map[view.Key]bool{}, map[view.Key]bool{}
	var found []config.Problem
	for _, k := range keys {
		if known[k] {
			continue
		}
		known[k] = true
		v := view.Build(s, k)
		found = append(found, t.envoys.listeners.InboundProblems(v)...)
		if k.EnvoyFilterPatches == (snapshot.PatchNames{}) {
			k.Inbound = "" // only patches of inbound listeners depend on it
		}
		if !shared[k] {
			shared[k] = true
			found = append(found, t.sharedConflicts(v)...)
		}
	}
	slices.SortFunc(found, config.Problem.Compare)
	return slices.Compact(found)
}

// sharedConflicts returns the Conflicts of a View except the InboundProblems.
func (t *Table) sharedConflicts(v *view.View) []config.Problem {
	return slices.Concat(t.envoys.listeners.SharedProblems(v), cluster.EnvoyProblems(v), plugin.EnvoyProblems(v),
		t.envoys.patching.problems(v))
}
