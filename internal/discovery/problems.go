package discovery

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// newAnalysis returns the background analysis of objects, certificates and plugins. It logs
// Problems when they appear and disappear, records when they appeared, and notifies the status
// writer of changes.
func (s *server) newAnalysis() *analysis.Background {
	var known map[config.Problem]bool
	log, positions := s.logs.Scope("analysis"), s.positions
	return analysis.NewBackground(analysis.BackgroundOptions{
		NewChecks: func() []analysis.Check {
			analyzer := analysis.New(analysis.Unhonoured{Object: s.unhonoured, Mesh: translate.UnhonouredMesh})
			var certificates secret.Inspector
			return []analysis.Check{
				func(s *snapshot.Snapshot, _ time.Time) []config.Problem { return analyzer.Analyze(s) },
				certificates.Problems, func(s *snapshot.Snapshot, _ time.Time) []config.Problem { return plugin.Problems(s) },
			}
		},
		Complete: func(s *snapshot.Snapshot, list []config.Problem) []config.Problem {
			return positions.Locate(list, s.Config)
		},
		Report: func(list []config.Problem, changed bool) {
			s.pages.RecordConfigurationProblems()
			if changed {
				s.notifyStatus()
			}
			known = ingest.LogProblems(log, known, list)
		},
	})
}

// analysisProblems returns the result of the last analysis.
func (s *server) analysisProblems() []config.Problem {
	_, list := s.analysis.Problems()
	return list
}

// admissionWarnings returns what the validation webhook warns of: fields of an object that have no
// effect, and references to objects that this control plane does not have.
func (s *server) admissionWarnings(c *config.Config) []config.Problem {
	return append(s.unhonoured(c), analysis.References(s.current.Load(), c)...)
}

// unhonoured returns a Problem for each field of an object that has no effect. Whether a
// ProxyConfig has one depends on whether this control plane injects proxies.
func (s *server) unhonoured(c *config.Config) []config.Problem {
	if !s.injects() {
		return translate.UnhonouredWithoutInjection(c)
	}
	return translate.Unhonoured(c)
}
