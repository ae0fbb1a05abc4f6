package destination

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Unknown returns the cluster of connections to destinations that are not in the mesh, by the
// outboundTrafficPolicy: BlackHoleCluster, PassthroughCluster, or that of the egress proxy.
func Unknown(v *view.View) string {
	u := v.OutboundTrafficPolicy()
	switch {
	case !u.AllowAny:
		return mesh.BlackHoleCluster
	case u.EgressProxy != nil:
		return Named(Host(v, mesh.Hostname(u.EgressProxy.GetHost())), u.EgressProxy, 0).String()
	default:
		return mesh.PassthroughCluster
	}
}

// UnknownRequests returns the cluster of requests to hosts that are not in the mesh, or "" if the
// outboundTrafficPolicy refuses them.
func UnknownRequests(v *view.View) string {
	u := v.OutboundTrafficPolicy()
	switch {
	case !u.AllowAny:
		return ""
	case u.ResolveByHost:
		return mesh.DynamicDNSCluster
	default:
		return Unknown(v)
	}
}
