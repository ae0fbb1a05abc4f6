package cluster

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Proxy is what of the proxies shapes their clusters.
type Proxy struct {
	Type mesh.ProxyType
	// IPv4 and IPv6 say which families the proxies have addresses of.
	IPv4, IPv6 bool
	// SocketMark is the SO_MARK of their own connections, by which capture lets them pass; 0: none.
	SocketMark int
	// Credentials are what they have for their own connections to other proxies.
	Credentials mesh.Credentials
	// FileServer is the static cluster by which their agents are asked for secrets that are files; "": they have no agent.
	FileServer string
	// Lacks is which of view.ClusterFeatures their Envoy does not have.
	Lacks view.EnvoyFeatures
}

// ProxyOf gives the Proxy of a View.
func ProxyOf(v *view.View) Proxy {
	return Proxy{
		Type: v.Key.Type, IPv4: v.Key.IPv4, IPv6: v.Key.IPv6, SocketMark: v.Key.SocketMark,
		Credentials: v.Key.Client, FileServer: v.Key.FileServer, Lacks: v.Key.Lacks & view.ClusterFeatures,
	}
}
