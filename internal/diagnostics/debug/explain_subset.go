package debug

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/diagnostics/precedence"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// subsetNotes returns a note for each subset of the path that the DestinationRule of the proxy's
// calls does not define, and one for each DestinationRule that defines it and does not apply, with
// the reason. It returns nil if all subsets are defined.
func (e *explanation) subsetNotes(path *explain.Path) []string {
	var notes []string
	for _, step := range path.Steps {
		if step.Stage != explain.StageCluster {
			continue
		}
		name, err := mesh.ParseClusterName(step.Resource)
		if err != nil || name.Subset == "" {
			continue
		}
		rule := e.view.DestinationRule(name.Host)
		switch {
		case rule == nil:
			notes = append(notes, fmt.Sprintf("no DestinationRule for %s applies to the proxy", name.Host))
		case config.Subset(rule.Spec, name.Subset) == nil:
			notes = append(notes, fmt.Sprintf("%s applies to calls to %s, and defines no subset %q",
				rule.From[0], name.Host, name.Subset))
		default:
			continue
		}
		notes = append(notes, e.otherRulesWithSubset(name)...)
	}
	return notes
}

// otherRulesWithSubset returns a note for each DestinationRule of the mesh that defines the subset
// of a cluster, for its host or a wildcard that covers it, with the reason why it is not in effect.
// It returns at most maxPrecedenceNotes.
func (e *explanation) otherRulesWithSubset(name mesh.ClusterName) []string {
	s := e.view.Snapshot
	labels := view.WorkloadLabels(s, e.proxy)
	var notes []string
	for _, c := range s.Configs(api.DestinationRule) {
		spec := config.Spec[*networking.DestinationRule](c)
		host := mesh.ResolveShortName(spec.GetHost(), c.Namespace, s.Settings.Domain)
		if host != name.Host && !host.Covers(name.Host) || config.Subset(spec, name.Subset) == nil {
			continue
		}
		relation := "does not apply to the proxy: see its exportTo and workloadSelector"
		for _, r := range precedence.Find(e.view, labels, c.Key) {
			if r.Host == name.Host {
				relation = r.String()
			}
		}
		notes = append(notes, fmt.Sprintf("%s defines subset %q, but %s", c.Key, name.Subset, relation))
	}
	return notes[:min(len(notes), maxPrecedenceNotes)]
}
