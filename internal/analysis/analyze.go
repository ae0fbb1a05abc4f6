package analysis

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Unhonoured gives what of one object's spec is not honoured. A kind without one is honoured whole.
type Unhonoured func(c *config.Config) []config.Problem

// Analyze gives all Problems of the snapshot's objects, sorted. unhonoured is asked for each object.
func Analyze(s *snapshot.Snapshot, unhonoured Unhonoured) []config.Problem {
	a := &analyzer{s: s}
	a.virtualServices()
	a.destinationRules()
	a.honour(unhonoured)
	slices.SortFunc(a.found, config.Problem.Compare)
	return slices.Compact(a.found)
}

type analyzer struct {
	s     *snapshot.Snapshot
	found []config.Problem
}

// warn notes that a part of an object has no effect, or not the one it says.
func (a *analyzer) warn(c *config.Config, field, reason string) {
	a.found = append(a.found, config.Problem{Key: c.Key, Origin: c.Origin, Field: field, Reason: reason, Severity: config.Warning})
}
