package view

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// View is the part of a snapshot that the proxies of one Key see. It is immutable and shared by all
// of them.
type View struct {
	Snapshot *snapshot.Snapshot
	*Contents
}

// Contents is the part of a View that stays the same while no change affects it. It is immutable,
// and shared by the Views of later snapshots (WithSnapshot).
type Contents struct {
	Key      Key
	Settings *snapshot.Settings
	// Egress has one entry per outbound listener. Without egress listeners in a Sidecar there is
	// one, whose Listener is nil.
	Egress []*Egress
	// Services are all visible services, one per hostname, sorted by hostname.
	Services []*mesh.Service
	// Inbound are the proxy's own service ports, sorted by target port. Several services on one
	// target port are sorted oldest first.
	Inbound []Instance
	// Ingress are the inbound listeners of the Sidecar. If nil, Inbound determines the listeners.
	Ingress []*networking.IstioIngressListener
	// Sidecar is the Sidecar that applies, or nil. Its pointer changes only with its content.
	Sidecar *config.Config

	scope *scope
}

// Build returns the View of a Key, which is never nil. Data that several Views have in common is
// cached in the snapshot, and kept by later snapshots that differ only in endpoints.
func Build(s *snapshot.Snapshot, k Key) *View {
	v := &View{Snapshot: s, Contents: &Contents{
		Key:      k,
		Settings: s.Settings.WithProxyConfig(k.ProxyConfigOverrides),
		Inbound:  decodeInstances(s, k.Inbound),
	}}
	if k.Sidecar != (config.Key{}) {
		if v.Sidecar = s.Config(k.Sidecar); v.Sidecar != nil {
			v.Ingress = config.Spec[*networking.Sidecar](v.Sidecar).Ingress
		}
	}
	v.scope = scopeOf(s, k)
	v.Egress, v.Services = v.scope.egress, v.scope.services
	return v
}

// WithSnapshot returns a View with the same Contents over a newer snapshot. The caller must know
// that no change in between affects the View (IsAffectedBy). The result no longer references the
// older snapshot.
func (v *View) WithSnapshot(s *snapshot.Snapshot) *View {
	return &View{Snapshot: s, Contents: v.Contents}
}

// Service returns the service of a hostname that this View sees, or nil.
func (v *View) Service(h mesh.Hostname) *mesh.Service { return v.scope.byHost[h] }

// DestinationRule returns the DestinationRule that applies to the proxies' calls to a host, or nil.
// The host need not be a service.
func (v *View) DestinationRule(h mesh.Hostname) *snapshot.DestinationRule {
	k := mesh.ServiceKey{Host: h}
	if svc := v.Service(h); svc != nil {
		k.Namespace = svc.Namespace
	}
	return v.Snapshot.SelectedRule(v.Key.Namespace, v.Key.DestinationRules, k)
}

// OwnDestinationRule returns the DestinationRule that callers in the service's own namespace use
// for it, or nil: it configures the inbound side. Rules with a workloadSelector are excluded: they
// apply to calls of the selected workloads, not to calls that these receive.
func (v *View) OwnDestinationRule(svc *mesh.Service) *snapshot.DestinationRule {
	return v.Snapshot.DestinationRule(svc.Namespace, svc.ServiceKey)
}

// Endpoints returns the endpoints of a service, an empty set if there are none.
func (v *View) Endpoints(svc *mesh.Service) *snapshot.EndpointSet {
	return v.Snapshot.Endpoints(svc.ServiceKey)
}

// IsAffectedBy reports whether d may have changed the View. It may return true for a change without
// effect, but never false for one with an effect. Whether a proxy still has this View's Key is
// decided by KeyFor.
func (v *View) IsAffectedBy(d snapshot.Delta) bool {
	return v.isAffectedBy(d, func(config.Key) bool { return false })
}

// AreServicesAffectedBy reports whether d may have changed the View's services, their endpoints or
// their DestinationRules, like IsAffectedBy. VirtualServices matter only if the View has a Sidecar,
// which imports the services that they refer to.
func (v *View) AreServicesAffectedBy(d snapshot.Delta) bool {
	return v.isAffectedBy(d, func(k config.Key) bool { return k.Kind == api.VirtualService && v.Sidecar == nil })
}

// isAffectedBy reports whether d may have changed the View, apart from the objects for which ignore
// returns true.
func (v *View) isAffectedBy(d snapshot.Delta, ignore func(config.Key) bool) bool {
	if d.All || len(d.Services) > 0 {
		return true
	}
	for k := range d.Configs {
		if !ignore(k) && v.IsAffectedByConfig(k) {
			return true
		}
	}
	return v.areEndpointsAffectedBy(d)
}

// areEndpointsAffectedBy reports whether d has changed endpoints of a service that the View sees.
// It ignores d.All.
func (v *View) areEndpointsAffectedBy(d snapshot.Delta) bool {
	for k := range d.Endpoints {
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			return true
		}
	}
	return false
}
