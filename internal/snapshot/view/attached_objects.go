package view

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// AttachedObjects are the config objects that apply to a proxy because they select it, by labels,
// by reference or by their namespace. attachedKinds has a row for each kind.
type AttachedObjects struct {
	// Sidecar is the Sidecar object that applies, or the zero Key if there is none.
	Sidecar config.Key
	// DestinationRules are the DestinationRules with a workloadSelector that selects the proxy.
	DestinationRules snapshot.RuleNames
	// Gateways are the Gateways that select a router.
	Gateways snapshot.GatewayNames
	// EnvoyFilterPatches are the EnvoyFilter patches that apply to the proxy.
	EnvoyFilterPatches snapshot.PatchNames
	// Telemetry are the Telemetry objects that apply to the proxy.
	Telemetry snapshot.TelemetryKeys
	// PeerAuthentications are the PeerAuthentications that apply to a sidecar.
	PeerAuthentications snapshot.Peers
	// Policies are the AuthorizationPolicies and RequestAuthentications that apply to the proxy.
	Policies snapshot.PolicyNames
	// Plugins are the WasmPlugins and TrafficExtensions that apply to the proxy.
	Plugins snapshot.PluginNames
}

// attachedObjects returns the objects that apply to the proxy p, whose attributes are a. Kinds that
// concern only other types of proxies, or only Envoys, are left out. gRPC applications without
// server credentials have none of those for TLS servers.
func attachedObjects(s *snapshot.Snapshot, p *mesh.Proxy, a snapshot.ProxyAttributes) AttachedObjects {
	var set proxySet
	switch {
	case p.Type == mesh.RouterProxy:
		set = routers
	case IsProxyless(p) && p.Metadata.ServerCredentials() == (mesh.Credentials{}):
		set = sidecars
	default:
		set = sidecars | tlsServers
	}
	var objects AttachedObjects
	table := attachedKinds()
	for i := range table {
		row := &table[i]
		if row.proxies&set != 0 && !(row.envoyOnly && IsProxyless(p)) {
			objects = row.attach(objects, s, a)
		}
	}
	return objects
}

// ObjectsFor returns the attached objects that the output of the generators r depends on. The
// others are zero.
func (k Key) ObjectsFor(r Reader) AttachedObjects {
	var objects AttachedObjects
	table := attachedKinds()
	for i := range table {
		if row := &table[i]; row.readers&r != 0 {
			objects = row.copy(objects, k.AttachedObjects)
		}
	}
	return objects
}

// attachedRow returns the row of a kind, or nil if its objects are not attached to proxies.
func attachedRow(kind api.Kind) *attachedKind {
	table := attachedKinds()
	for i := range table {
		if table[i].kind == kind {
			return &table[i]
		}
	}
	return nil
}

// IsAffectedByConfig reports whether a change of the object k may have changed the View. It may
// return true for a change without effect, but never false for one with an effect. Objects that are
// converted to services or endpoints are not considered: the Delta lists what they are converted
// to.
func (v *View) IsAffectedByConfig(k config.Key) bool {
	if k.Kind == api.VirtualService { // visible to proxies instead of attached to them
		return true
	}
	// Services and endpoints that objects are converted to are checked separately. No kind but
	// these affects Views.
	row := attachedRow(k.Kind)
	return row != nil && row.affects(&v.Key.AttachedObjects, k)
}

// IsAnyAttachedChanged reports whether d contains an object of one of kinds that may affect the
// View (IsAffectedByConfig). It ignores d.All.
func (v *View) IsAnyAttachedChanged(d snapshot.Delta, kinds ...api.Kind) bool {
	for k := range d.Configs {
		if slices.Contains(kinds, k.Kind) && v.IsAffectedByConfig(k) {
			return true
		}
	}
	return false
}
