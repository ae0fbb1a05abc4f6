package lint

import (
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// Check is one analysis.
type Check struct {
	Name, Description string
	// Live reports whether a control plane has the check too.
	Live bool
	run  func(r *analysisRun)
}

// Checks returns all checks, in the order in which they run.
func Checks() []Check {
	return []Check{
		{"mesh", "references, conflicts and fields without effect, as found by a running control plane", true, (*analysisRun).checkMesh},
		{"proxies", "conflicts of services, servers, routes and patches in the configuration of the proxies that the files imply", true, (*analysisRun).checkViews},
	}
}

// checkMesh adds the Problems that a control plane reports for the snapshot.
func (r *analysisRun) checkMesh() {
	var certificates secret.Inspector
	analyzer := analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh})
	r.problems = append(r.problems, r.snapshot.Problems()...)
	for _, p := range append(analyzer.Analyze(r.snapshot), certificates.Problems(r.snapshot, r.options.Now)...) {
		if !r.isGenerated(p.Key) {
			r.addProblem(p)
		}
	}
	r.problems = append(r.problems, plugin.Problems(r.snapshot)...)
}

// isGenerated reports whether an object is generated from another one, or describes proxies that a
// control plane deploys. A Gateway of the Gateway API has no workload before it is deployed.
func (r *analysisRun) isGenerated(k config.Key) bool {
	return k.Kind == api.KubernetesGateway || (k != (config.Key{}) && r.byKey[k] == nil)
}

// checkViews adds the conflicts in the configuration of the proxies that the files imply.
func (r *analysisRun) checkViews() {
	table := translate.NewTable(translate.Options{})
	seen := map[view.Key]bool{}
	for _, p := range offline.Proxies(r.snapshot) {
		k := view.KeyFor(r.snapshot, p)
		if k.EnvoyFilterPatches == (snapshot.PatchNames{}) {
			k.Inbound = "" // conflicts depend only on the outbound configuration
		}
		if !seen[k] {
			seen[k] = true
			r.problems = append(r.problems, table.Conflicts(view.Build(r.snapshot, k))...)
		}
	}
}
