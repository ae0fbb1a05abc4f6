package view

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// OutboundTrafficPolicy determines how calls to destinations outside the service registry are
// handled (outboundTrafficPolicy of the applicable Sidecar, else of MeshConfig). The zero value
// blocks them.
type OutboundTrafficPolicy struct {
	// AllowAny forwards them, by default to their original destination.
	AllowAny bool
	// ResolveByHost makes the proxy resolve the host of HTTP requests by DNS instead of using the
	// original destination (ALLOW_ANY_DYNAMIC_DNS).
	ResolveByHost bool
	// EgressProxy is the destination of all these calls, with a fully qualified host (egressProxy).
	// If nil, they are not redirected.
	EgressProxy *networking.Destination
}

// OutboundTrafficPolicy returns the policy for calls to unknown destinations.
func (v *View) OutboundTrafficPolicy() OutboundTrafficPolicy { return v.scope.trafficPolicy }

// OutboundAllowAny reports whether calls to unknown destinations are forwarded.
func (v *View) OutboundAllowAny() bool { return v.scope.trafficPolicy.AllowAny }

// outboundTrafficPolicy returns the policy of the Sidecar (sidecarTrafficPolicy), or of MeshConfig
// if sidecar is nil or has none. Only ALLOW_ANY_DYNAMIC_DNS of MeshConfig sets ResolveByHost.
// Unknown modes of MeshConfig are REGISTRY_ONLY.
func outboundTrafficPolicy(s *snapshot.Settings, sidecar *config.Config) OutboundTrafficPolicy {
	if sidecar != nil {
		if p := config.Spec[*networking.Sidecar](sidecar).GetOutboundTrafficPolicy(); p != nil {
			return sidecarTrafficPolicy(s, sidecar, p)
		}
	}
	switch s.Mesh.GetOutboundTrafficPolicy().GetMode() {
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY:
		return OutboundTrafficPolicy{AllowAny: true}
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		return OutboundTrafficPolicy{AllowAny: true, ResolveByHost: true}
	default:
		return OutboundTrafficPolicy{}
	}
}

// sidecarTrafficPolicy returns the policy p of a Sidecar. Any mode but ALLOW_ANY blocks unknown
// destinations. Its egressProxy is used only with ALLOW_ANY, as a copy with a full host name.
func sidecarTrafficPolicy(
	s *snapshot.Settings,
	sidecar *config.Config,
	p *networking.OutboundTrafficPolicy,
) OutboundTrafficPolicy {
	u := OutboundTrafficPolicy{AllowAny: p.GetMode() == networking.OutboundTrafficPolicy_ALLOW_ANY}
	if u.AllowAny && p.GetEgressProxy() != nil {
		u.EgressProxy = proto.CloneOf(p.GetEgressProxy())
		u.EgressProxy.Host = string(mesh.ResolveShortName(u.EgressProxy.GetHost(), sidecar.Namespace, s.Domain))
	}
	return u
}
