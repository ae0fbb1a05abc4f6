package listener

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// gateway is the listeners of a gateway, planned and encoded.
type gateway struct {
	resources  []*resource.Resource
	extensions map[string]*resource.Resource
	problems   []config.Problem
}

type gatewayKey struct {
	of  *Generator
	key view.Key
}

// gateway returns the listeners of a gateway's View, generated once for each snapshot and Key.
func (g *Generator) gateway(v *view.View) *gateway {
	return snapshot.Derive(v.Snapshot.Derived, gatewayKey{g, v.Key}, func() *gateway {
		p := planGateway(v)
		a := g.inboundContext(v)
		return &gateway{g.resources(p.specs, a), g.extensionsOf(p.specs, a), p.problems}
	})
}

// Gateway returns the listeners of a gateway, from the Gateways that select it. It returns nil for
// other proxies.
func (g *Generator) Gateway(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	return g.gateway(v).resources
}

// GatewayTouched reports whether a change may alter the result of Gateway; s is the snapshot after
// the change. VirtualServices matter only with TCP or TLS routes, because requests are routed by
// RDS; services and DestinationRules only if a listener forwards connections. Any ReferenceGrant
// matters, and other objects if they affect the View, its telemetry, policies or SDS provider. It
// returns false for a View that is not a gateway's.
func (g *Generator) GatewayTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if v.Key.Type != mesh.RouterProxy {
		return false
	}
	if d.All || g.telemetry.Touched(v, s, d) || g.policiesTouched(v, s, d) || credentialsTouched(v, s, d) {
		return true
	}
	if (len(d.Services) > 0 || len(d.Rules) > 0) && slices.ContainsFunc(v.Gateway().Listeners, forwardsConnections) {
		return true
	}
	for k := range d.Configs {
		switch k.Kind {
		case api.DestinationRule: // see above
		case api.ReferenceGrant: // It may grant or deny a Secret of another namespace.
			return true
		case api.VirtualService:
			if routesConnections(v.Snapshot.Config(k)) || routesConnections(s.Config(k)) {
				return true
			}
		default:
			if v.IsAffectedByConfig(k) {
				return true
			}
		}
	}
	return false
}

// forwardsConnections reports whether a listener has a server that forwards connections (TCP, or
// TLS without HTTP), and not only requests.
func forwardsConnections(l *view.GatewayListener) bool {
	return slices.ContainsFunc(l.Servers, func(s *view.GatewayServer) bool { return !s.ServesHTTP() })
}
