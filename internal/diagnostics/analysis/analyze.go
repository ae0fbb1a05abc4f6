package analysis

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Unhonoured gives what proxies do not follow, as Warnings without Key and Origin.
type Unhonoured struct {
	// Object looks at one object's spec, Mesh at the mesh configuration.
	Object func(c *config.Config) []config.Problem
	Mesh   func(m *meshconfig.MeshConfig) []config.Problem
}

// Analyzer looks at snapshots one after the other. It remembers what it found of objects by themselves, so that of the next
// snapshot it looks at those only that are new. It is for one goroutine.
type Analyzer struct {
	unhonoured Unhonoured
	known      map[*config.Config][]config.Problem
}

// New makes an Analyzer that has seen nothing yet.
func New(u Unhonoured) *Analyzer { return &Analyzer{unhonoured: u} }

// Analyze gives all Problems of the snapshot's objects and of its mesh configuration, sorted.
func (z *Analyzer) Analyze(s *snapshot.Snapshot) []config.Problem {
	a := &analyzer{s: s, known: z.known}
	a.virtualServices()
	a.delegation()
	a.gateways()
	a.gatewaySelectors()
	a.shadowed()
	a.destinationRules()
	a.zoneAwareRouting()
	a.sidecars()
	a.networks()
	a.peerAuthentications()
	a.authorizationPolicies()
	a.policyPorts()
	a.honour(z.unhonoured.Object)
	z.known = a.known
	for _, p := range z.unhonoured.Mesh(s.Settings.Mesh) {
		p.Origin = "mesh configuration"
		a.found = append(a.found, p)
	}
	slices.SortFunc(a.found, config.Problem.Compare)
	return slices.Compact(a.found)
}

type analyzer struct {
	s     *snapshot.Snapshot
	known map[*config.Config][]config.Problem
	found []config.Problem
}

// warn notes that a part of an object has no effect, or not the one it says.
func (a *analyzer) warn(c *config.Config, field, reason string) {
	a.found = append(a.found, config.Problem{Key: c.Key, Origin: c.Origin, Field: field, Reason: reason, Severity: config.Warning})
}
