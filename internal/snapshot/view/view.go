package view

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// View is what the proxies of one Key see. It is immutable and shared by all of them.
type View struct {
	Key      Key
	Snapshot *snapshot.Snapshot
	Settings *snapshot.Settings
	// Egress are the scopes of the outbound listeners. Without a Sidecar that says otherwise there is one, whose
	// Listener is nil.
	Egress []*Egress
	// Services are all visible services, one per hostname, sorted by hostname.
	Services []*mesh.Service
	// Inbound are the proxy's own service ports, sorted by target port; of several services on one, the oldest first.
	Inbound []Instance
	// Ingress are the inbound listeners of the Sidecar; nil: those of Inbound.
	Ingress []*networking.IstioIngressListener
	// Sidecar is the Sidecar that applies, nil if none does. It is a row.
	Sidecar *config.Config

	scope *scope
}

// Build makes the View of a Key. Parts that Views have in common are shared with those of the same snapshot, and of
// all that differ from it only in endpoints.
func Build(s *snapshot.Snapshot, k Key) *View {
	v := &View{Key: k, Snapshot: s, Settings: s.Settings.With(k.Own), Inbound: decodeInstances(s, k.Inbound)}
	if k.Sidecar != (config.Key{}) {
		if v.Sidecar = s.Config(k.Sidecar); v.Sidecar != nil {
			v.Ingress = config.Spec[*networking.Sidecar](v.Sidecar).Ingress
		}
	}
	v.scope = scopeOf(s, k)
	v.Egress, v.Services = v.scope.egress, v.scope.services
	return v
}

// On gives the View as it is over a newer snapshot, none of whose changes touch what it is asked for. It lets go of the older
// snapshot.
func (v *View) On(s *snapshot.Snapshot) *View {
	next := *v
	next.Snapshot = s
	return &next
}

// Service finds a service by hostname as this View sees it, nil if it sees none.
func (v *View) Service(h mesh.Hostname) *mesh.Service { return v.scope.byHost[h] }

// DestinationRule gives the rule that applies to a host for this View, nil if there is none.
func (v *View) DestinationRule(h mesh.Hostname) *snapshot.DestinationRule {
	k := mesh.ServiceKey{Host: h}
	if svc := v.Service(h); svc != nil {
		k.Namespace = svc.Namespace
	}
	return v.Snapshot.SelectedRule(v.Key.Namespace, v.Key.Rules, k)
}

// OwnDestinationRule gives the rule that the service's own namespace has for it: what its inbound side goes by. Rules with a
// workloadSelector are about what the selected call, not about what they serve.
func (v *View) OwnDestinationRule(svc *mesh.Service) *snapshot.DestinationRule {
	return v.Snapshot.DestinationRule(svc.Namespace, svc.ServiceKey)
}

// Endpoints gives the endpoints of a service.
func (v *View) Endpoints(svc *mesh.Service) *snapshot.EndpointSet {
	return v.Snapshot.Endpoints(svc.ServiceKey)
}

// Touched says whether the change may have altered the View. It says false only where it surely has not. Which proxies
// belong to the View is another question, that KeyFor answers.
func (v *View) Touched(d snapshot.Delta) bool {
	if d.All || len(d.Services) > 0 {
		return true
	}
	for k := range d.Configs {
		if v.TouchedBy(k) {
			return true
		}
	}
	return v.touchesEndpoints(d)
}

func (v *View) touchesEndpoints(d snapshot.Delta) bool {
	for k := range d.Endpoints {
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			return true
		}
	}
	return false
}

// TouchedBy says whether a change of the object may have altered the View. It says false only where it surely has not.
func (v *View) TouchedBy(k config.Key) bool {
	switch k.Kind {
	case api.VirtualService, api.DestinationRule:
		return true
	case api.EnvoyFilter:
		return v.Key.Patches.Has(k)
	case api.Telemetry:
		return v.Key.Telemetry.Has(k)
	case api.PeerAuthentication:
		return v.Key.Peers.Has(k)
	case api.AuthorizationPolicy, api.RequestAuthentication:
		return v.Key.Policies.Has(k)
	case api.WasmPlugin, api.TrafficExtension:
		return v.Key.Plugins.Has(k)
	case api.Gateway:
		return v.touchesGateway(k)
	case api.Sidecar:
		return k.Namespace == v.Key.Namespace || k.Namespace == v.Settings.RootNamespace
	default:
		return false // services and endpoints made of objects come as such; other kinds shape nothing yet
	}
}
