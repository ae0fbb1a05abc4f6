package cluster

import (
	"math"

	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// applyConnectionPool sets limits and timeouts of connections. Zero means unset, as in the API.
func applyConnectionPool(c *clusterv3.Cluster, settings *snapshot.Settings, pool *networking.ConnectionPoolSettings, budget *networking.TrafficPolicy_RetryBudget) {
	mesh := settings.Mesh
	c.ConnectTimeout = positive(mesh.GetConnectTimeout())
	if own := positive(pool.GetTcp().GetConnectTimeout()); own != nil {
		c.ConnectTimeout = own
	}
	limits := &clusterv3.CircuitBreakers_Thresholds{
		MaxConnections:     limit(pool.GetTcp().GetMaxConnections()),
		MaxPendingRequests: limit(pool.GetHttp().GetHttp1MaxPendingRequests()),
		MaxRequests:        limit(pool.GetHttp().GetHttp2MaxRequests()),
		MaxRetries:         limit(pool.GetHttp().GetMaxRetries()),
		TrackRemaining:     settings.Features.TrackRemaining,
		RetryBudget:        retryBudget(budget),
	}
	c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{limits}}
	applyBufferLimit(c, mesh.GetDefaultConfig().GetConnectionSettings().GetClusterPerConnectionBufferLimitBytes())
	applyKeepalive(c, mesh.GetTcpKeepalive())
	applyKeepalive(c, pool.GetTcp().GetTcpKeepalive())
}

// applyBufferLimit bounds what is held of a connection that one side writes faster than the other reads
// (ProxyConfig.connectionSettings). A negative limit is none.
func applyBufferLimit(c *clusterv3.Cluster, bytes *wrapperspb.Int32Value) {
	if bytes != nil && bytes.GetValue() >= 0 {
		c.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(bytes.GetValue()))
	}
}

// limit gives a circuit breaker's threshold. What is not limited is said so: Envoy's own defaults (1024, and 3 retries) are
// too low for a mesh in which endpoints come and go.
func limit(n int32) *wrapperspb.UInt32Value {
	if n <= 0 {
		return wrapperspb.UInt32(math.MaxUint32)
	}
	return wrapperspb.UInt32(uint32(n))
}

// retryBudget converts TrafficPolicy.RetryBudget, with the defaults that its API documents.
func retryBudget(b *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers_Thresholds_RetryBudget {
	if b == nil {
		return nil
	}
	percent, least := 20.0, uint32(3)
	if b.Percent != nil {
		percent = b.Percent.GetValue()
	}
	if b.MinRetryConcurrency > 0 {
		least = b.MinRetryConcurrency
	}
	return &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		BudgetPercent:       &typev3.Percent{Value: percent},
		BudgetInterval:      positive(b.BudgetInterval),
		MinRetryConcurrency: wrapperspb.UInt32(least),
	}
}

// applyKeepalive sets TCP keepalive probes; what k leaves out keeps what an earlier call set, or the system's default.
func applyKeepalive(c *clusterv3.Cluster, k *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) {
	if k == nil {
		return
	}
	if c.UpstreamConnectionOptions == nil {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{}}
	}
	out := c.UpstreamConnectionOptions.TcpKeepalive
	if k.Probes > 0 {
		out.KeepaliveProbes = wrapperspb.UInt32(k.Probes)
	}
	if k.Time != nil {
		out.KeepaliveTime = wrapperspb.UInt32(uint32(k.Time.GetSeconds()))
	}
	if k.Interval != nil {
		out.KeepaliveInterval = wrapperspb.UInt32(uint32(k.Interval.GetSeconds()))
	}
}
