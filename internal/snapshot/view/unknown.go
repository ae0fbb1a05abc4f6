package view

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Unknown is what becomes of calls to destinations that nobody in the mesh knows (outboundTrafficPolicy of the Sidecar that
// applies, or else of MeshConfig). The zero Unknown ends them.
type Unknown struct {
	// Allowed lets them pass: to the address that they were for, or elsewhere as the following says.
	Allowed bool
	// ByName has the proxy look up the host of requests (ALLOW_ANY_DYNAMIC_DNS), rather than trust the caller's address.
	ByName bool
	// Proxy is where they all go (egressProxy), with a full host; nil: nowhere in particular.
	Proxy *networking.Destination
}

// Unknown says what becomes of calls to unknown destinations.
func (v *View) Unknown() Unknown { return v.scope.unknown }

// OutboundAllowAny says whether calls to unknown destinations pass.
func (v *View) OutboundAllowAny() bool { return v.scope.unknown.Allowed }

func unknownOf(s *snapshot.Settings, sidecar *config.Config) Unknown {
	if sidecar != nil {
		if p := config.Spec[*networking.Sidecar](sidecar).GetOutboundTrafficPolicy(); p != nil {
			return ofSidecar(s, sidecar, p)
		}
	}
	switch s.Mesh.GetOutboundTrafficPolicy().GetMode() {
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY:
		return Unknown{Allowed: true}
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		return Unknown{Allowed: true, ByName: true}
	default:
		return Unknown{}
	}
}

func ofSidecar(s *snapshot.Settings, sidecar *config.Config, p *networking.OutboundTrafficPolicy) Unknown {
	u := Unknown{Allowed: p.GetMode() == networking.OutboundTrafficPolicy_ALLOW_ANY}
	if u.Allowed && p.GetEgressProxy() != nil {
		u.Proxy = proto.CloneOf(p.GetEgressProxy())
		u.Proxy.Host = string(mesh.ResolveShortName(u.Proxy.GetHost(), sidecar.Namespace, s.Domain))
	}
	return u
}
