package analysis

import (
	"cmp"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Unhonoured finds settings that the translation ignores. Its functions return Warnings without Key
// and Origin.
type Unhonoured struct {
	// Object checks the spec of one object. Mesh checks the mesh configuration.
	Object func(c *config.Config) []config.Problem
	Mesh   func(m *meshconfig.MeshConfig) []config.Problem
}

// Analyzer checks a sequence of snapshots. It caches the results of Unhonoured.Object, so only
// objects that are new in a snapshot are checked again. It is not safe for concurrent use.
type Analyzer struct {
	unhonoured Unhonoured
	known      map[*config.Config][]config.Problem
}

// New returns an Analyzer with an empty cache.
func New(u Unhonoured) *Analyzer { return &Analyzer{unhonoured: u} }

// Analyze returns the Problems of the snapshot's objects and of its mesh configuration, sorted and
// without duplicates. It keeps the results of unchanged objects for the next call, so calls must
// not overlap.
func (z *Analyzer) Analyze(s *snapshot.Snapshot) []config.Problem {
	a := &analyzer{s: s, known: z.known}
	a.reportVirtualServices()
	a.checkDelegation()
	a.checkGateways()
	a.reportGatewaySelectors()
	a.reportGatewayServicePorts()
	a.checkShadowed()
	a.checkShadowedConnections()
	a.reportDestinationRules()
	a.reportSubsetEndpoints()
	a.reportZoneAwareRouting()
	a.checkSidecars()
	a.reportWorkloadSelectors()
	a.reportWorkloadAddresses()
	a.reportTargetRefs()
	a.checkNetworks()
	a.reportPeerAuthentications()
	a.reportAuthorizationPolicies()
	a.reportPolicyPorts()
	a.reportWorkloadPorts()
	a.reportIgnored(z.unhonoured.Object)
	z.known = a.known
	for _, p := range z.unhonoured.Mesh(s.Settings.Mesh) {
		p.Origin = "mesh configuration"
		p.Code = cmp.Or(p.Code, code.InvalidMeshSetting)
		a.found = append(a.found, p)
	}
	slices.SortFunc(a.found, config.Problem.Compare)
	return slices.Compact(a.found)
}

// analyzer is the state of one call to Analyze. known is the cache of Unhonoured.Object, which
// reportIgnored replaces, and found the Problems so far. The other fields are computed at their
// first use.
type analyzer struct {
	s     *snapshot.Snapshot
	known map[*config.Config][]config.Problem
	found []config.Problem
	// ruleNamespaces caches namespacesWithRule by host, gatewayWorkloads caches gatewayNamespaces.
	ruleNamespaces   map[mesh.Hostname][]string
	gatewayWorkloads map[string][]string
}

// warn appends a Warning for a field of c that has no effect, or another effect than it describes.
// The Warning is on the source of a converted object, without the field.
func (a *analyzer) warn(x code.Code, c *config.Config, field, reason string) {
	a.warnConflict(x, c, config.Key{}, field, reason)
}

// warnConflict appends a Warning like warn, about a conflict with the object other. A zero other is
// no object. For a converted c, the Warning is on its source object, without a field.
func (a *analyzer) warnConflict(x code.Code, c *config.Config, other config.Key, field, reason string) {
	key := c.Key
	if c.Extension != nil { // converted from an object that the user wrote
		key, field = c.Extension.Source, ""
	}
	a.found = append(a.found, config.Problem{Key: key, Origin: c.Origin, Field: field, Reason: reason,
		Severity: config.Warning, Code: x, Conflict: other})
}
