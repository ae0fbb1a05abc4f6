package destination

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Unknown gives the cluster of connections to destinations that nobody in the mesh knows (outboundTrafficPolicy).
func Unknown(v *view.View) string {
	u := v.Unknown()
	switch {
	case !u.Allowed:
		return mesh.BlackHoleCluster
	case u.Proxy != nil:
		return Named(Host(v, mesh.Hostname(u.Proxy.GetHost())), u.Proxy, 0).String()
	default:
		return mesh.PassthroughCluster
	}
}

// UnknownRequests gives the cluster of requests to hosts that nobody in the mesh knows; "" where they are refused.
func UnknownRequests(v *view.View) string {
	u := v.Unknown()
	switch {
	case !u.Allowed:
		return ""
	case u.ByName:
		return mesh.DynamicDNSCluster
	default:
		return Unknown(v)
	}
}
