package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Proxy is the properties of proxies that affect their clusters.
type Proxy struct {
	Type mesh.ProxyType
	// IPv4 and IPv6 are the address families of the proxies.
	IPv4, IPv6 bool
	// LookupFamily is the family of the addresses that the proxies resolve names to.
	LookupFamily clusterv3.Cluster_DnsLookupFamily
	// SocketMark is the SO_MARK of the proxies' own connections, by which capture excludes them; 0
	// if unused.
	SocketMark int
	// Credentials are the certificate and roots that the proxies have for connections to other
	// proxies.
	Credentials mesh.Credentials
	// FileServer is the static cluster of the agent that serves secrets from files, or "" if the
	// proxies have no agent.
	FileServer string
	// CredentialServer is set if an SDS server of the user beside the proxies has the credentials
	// "sds://NAME".
	CredentialServer bool
	// Lacks is the subset of view.ClusterFeatures that their Envoy does not support.
	Lacks view.EnvoyFeatures
}

// ProxyOf returns the properties of a View's proxies that affect clusters. Lacks has only the
// missing features of view.ClusterFeatures.
func ProxyOf(v *view.View) Proxy {
	return Proxy{
		Type: v.Key.Type, IPv4: v.Key.IPv4, IPv6: v.Key.IPv6, LookupFamily: destination.LookupFamily(v),
		SocketMark:  v.Key.SocketMark,
		Credentials: v.Key.ClientCredentials, FileServer: v.Key.FileServer, CredentialServer: v.Key.CredentialServer,
		Lacks: v.Key.MissingFeatures & view.ClusterFeatures,
	}
}
