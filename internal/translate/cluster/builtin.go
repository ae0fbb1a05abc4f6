package cluster

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// passthroughIdle is the idle timeout of connections to unknown destinations.
const passthroughIdle = 5 * time.Minute

// BuiltinInput is everything that a cluster depends on that is the same for all services.
type BuiltinInput struct {
	// Name is one of mesh.PassthroughCluster, mesh.InboundPassthroughCluster,
	// mesh.BlackHoleCluster, mesh.DynamicDNSCluster and mesh.CredentialServerCluster.
	Name     string
	Settings *snapshot.Settings
	Proxy    Proxy
}

// Builtin returns the cluster with the name in.Name, which belongs to no service. The black hole
// connects to nothing, and the server of credentials to a socket beside the proxy, with HTTP/2.
// Both have only a connect timeout. All others have the client's HTTP version and the mesh's
// default connection pool, with the idle timeout passthroughIdle if it sets none. The dynamic DNS
// cluster connects to the host that each request names, with the TLS settings of
// outboundTrafficPolicy; any other name to the original destination.
func Builtin(in BuiltinInput) *clusterv3.Cluster {
	c := &clusterv3.Cluster{Name: in.Name, Metadata: builtinMetadata(in.Name)}
	switch in.Name {
	case mesh.BlackHoleCluster:
		applyType(c, clusterv3.Cluster_STATIC)
		c.ConnectTimeout = positiveOrNil(in.Settings.Mesh.GetConnectTimeout())
		return c
	case mesh.CredentialServerCluster:
		applyStatic(c, &corev3.Address{Address: &corev3.Address_Pipe{
			Pipe: &corev3.Pipe{Path: mesh.CredentialServerSocket},
		}})
		c.ConnectTimeout = positiveOrNil(in.Settings.Mesh.GetConnectTimeout())
		grpc := new(httpProtocol)
		grpc.speakHTTP2()
		grpc.applyTo(c)
		return c
	}
	pool := in.Settings.Mesh.GetDefaultTrafficPolicy().GetConnectionPool()
	applyConnectionPool(c, in.Settings, pool, nil)
	http := newHTTPProtocol(mesh.Port{}, in.Settings.Mesh)
	http.followClient()
	http.applyConnectionPool(pool)
	if http.options.CommonHttpProtocolOptions == nil {
		http.options.CommonHttpProtocolOptions = new(corev3.HttpProtocolOptions)
	}
	if http.options.CommonHttpProtocolOptions.IdleTimeout == nil {
		http.options.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(passthroughIdle)
	}
	if in.Name == mesh.DynamicDNSCluster {
		tls := in.Settings.Mesh.GetOutboundTrafficPolicy().GetTls()
		transport{
			tls:         tls,
			mesh:        in.Settings.Mesh,
			features:    in.Settings.Features,
			proxy:       in.Proxy,
			credentials: true,
		}.apply(c, http)
		applyDynamic(c, in.Proxy, http)
	} else {
		applyType(c, clusterv3.Cluster_ORIGINAL_DST)
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	}
	http.applyTo(c)
	if in.Name == mesh.InboundPassthroughCluster {
		applyInboundSource(c, in.Proxy)
	}
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}

// builtinNames returns the names of the clusters that all proxies of a View have besides the
// services' clusters: the black hole, and the server of credentials beside the proxies if there is
// one. Gateways have no other, because they have no captured traffic. Other proxies also have the
// two passthrough clusters, and mesh.DynamicDNSCluster only if the outbound traffic policy resolves
// by host.
func builtinNames(v *view.View) []string {
	names := []string{mesh.BlackHoleCluster}
	if v.Key.CredentialServer {
		names = append(names, mesh.CredentialServerCluster)
	}
	if v.Key.Type == mesh.RouterProxy {
		return names
	}
	names = append(names, mesh.PassthroughCluster, mesh.InboundPassthroughCluster)
	if v.OutboundTrafficPolicy().ResolveByHost {
		names = append(names, mesh.DynamicDNSCluster)
	}
	return names
}
