package analysis

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Unhonoured gives what proxies do not follow, as Warnings without Key and Origin.
type Unhonoured struct {
	// Object looks at one object's spec, Mesh at the mesh configuration.
	Object func(c *config.Config) []config.Problem
	Mesh   func(m *meshconfig.MeshConfig) []config.Problem
}

// Analyze gives all Problems of the snapshot's objects and of its mesh configuration, sorted.
func Analyze(s *snapshot.Snapshot, u Unhonoured) []config.Problem {
	a := &analyzer{s: s}
	a.virtualServices()
	a.destinationRules()
	a.honour(u.Object)
	for _, p := range u.Mesh(s.Settings.Mesh) {
		p.Origin = "mesh configuration"
		a.found = append(a.found, p)
	}
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
