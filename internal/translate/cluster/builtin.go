package cluster

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// passthroughIdle ends connections to unknown destinations that nobody uses.
const passthroughIdle = 5 * time.Minute

// BuiltinInput is all that the clusters depend on that every proxy gets.
type BuiltinInput struct {
	// Name is one of mesh.PassthroughCluster, mesh.InboundPassthroughCluster and mesh.BlackHoleCluster.
	Name     string
	Settings *snapshot.Settings
	Proxy    Proxy
}

// Builtin makes a cluster that every proxy gets: the one that takes connections to where they were going, that for those
// that come in, or the one that takes them nowhere.
func Builtin(in BuiltinInput) *clusterv3.Cluster {
	c := &clusterv3.Cluster{Name: in.Name}
	if in.Name == mesh.BlackHoleCluster {
		applyType(c, clusterv3.Cluster_STATIC)
		c.ConnectTimeout = positive(in.Settings.Mesh.GetConnectTimeout())
		return c
	}
	applyType(c, clusterv3.Cluster_ORIGINAL_DST)
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	pool := in.Settings.Mesh.GetDefaultTrafficPolicy().GetConnectionPool()
	applyConnectionPool(c, in.Settings.Mesh, pool, nil)
	http := new(httpProtocol)
	http.followClient()
	http.applyConnectionPool(pool)
	if http.options.CommonHttpProtocolOptions == nil {
		http.options.CommonHttpProtocolOptions = new(corev3.HttpProtocolOptions)
	}
	if http.options.CommonHttpProtocolOptions.IdleTimeout == nil {
		http.options.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(passthroughIdle)
	}
	http.put(c)
	if in.Name == mesh.InboundPassthroughCluster {
		applyInboundSource(c, in.Proxy)
	}
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}

// builtins names the clusters that every proxy of a type gets. A gateway is never asked to pass anything through.
func builtins(t mesh.ProxyType) []string {
	if t == mesh.RouterProxy {
		return []string{mesh.BlackHoleCluster}
	}
	return []string{mesh.BlackHoleCluster, mesh.PassthroughCluster, mesh.InboundPassthroughCluster}
}
