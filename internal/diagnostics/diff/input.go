package diff

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// NewInput returns an Input with the generators and checks of a control plane. unhonoured returns a
// Problem for each field of an object that has no effect (translate.Unhonoured). The caller sets
// the snapshots and proxies.
func NewInput(table *translate.Table, unhonoured func(*config.Config) []config.Problem) Input {
	analyzer := analysis.New(analysis.Unhonoured{Object: unhonoured, Mesh: translate.UnhonouredMesh})
	return Input{
		Generators: table.Generators, Conflicts: table.Conflicts,
		Problems: func(s *snapshot.Snapshot) []config.Problem {
			return slices.Concat(analyzer.Analyze(s), plugin.Problems(s))
		},
	}
}
