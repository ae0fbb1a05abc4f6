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

// passthroughIdle ends connections to unknown destinations that nobody uses.
const passthroughIdle = 5 * time.Minute

// BuiltinInput is all that the clusters depend on that every proxy gets.
type BuiltinInput struct {
	// Name is one of mesh.PassthroughCluster, mesh.InboundPassthroughCluster, mesh.BlackHoleCluster and
	// mesh.DynamicDNSCluster.
	Name     string
	Settings *snapshot.Settings
	Proxy    Proxy
}

// Builtin makes a cluster that every proxy gets: the one that takes connections to where they were going, that for those
// that come in, the one that takes them nowhere, or that which takes requests to where their host is.
func Builtin(in BuiltinInput) *clusterv3.Cluster {
	c := &clusterv3.Cluster{Name: in.Name, Metadata: builtinMetadata(in.Name)}
	if in.Name == mesh.BlackHoleCluster {
		applyType(c, clusterv3.Cluster_STATIC)
		c.ConnectTimeout = positive(in.Settings.Mesh.GetConnectTimeout())
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
		transport{tls: tls, mesh: in.Settings.Mesh, features: in.Settings.Features, proxy: in.Proxy, credentials: true}.apply(c, http)
		applyDynamic(c, in.Proxy, http)
	} else {
		applyType(c, clusterv3.Cluster_ORIGINAL_DST)
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	}
	http.put(c)
	if in.Name == mesh.InboundPassthroughCluster {
		applyInboundSource(c, in.Proxy)
	}
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}

// builtins names the clusters that every proxy of a View gets. A gateway is never asked to pass anything through.
func builtins(v *view.View) []string {
	if v.Key.Type == mesh.RouterProxy {
		return []string{mesh.BlackHoleCluster}
	}
	names := []string{mesh.BlackHoleCluster, mesh.PassthroughCluster, mesh.InboundPassthroughCluster}
	if v.Unknown().ByName {
		names = append(names, mesh.DynamicDNSCluster)
	}
	return names
}
