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

// applyConnectionPool sets the circuit breaker limits, retry budget, connect timeout, keepalive and
// buffer limit of c. Connect timeout and keepalive come from pool or else from the mesh. The buffer
// limit is the mesh's (ProxyConfig); the circuit breaker limits come from pool only. Zero means
// unset, as in the API; limits that are unset are unlimited. pool and budget may be nil.
func applyConnectionPool(
	c *clusterv3.Cluster,
	settings *snapshot.Settings,
	pool *networking.ConnectionPoolSettings,
	budget *networking.TrafficPolicy_RetryBudget,
) {
	mesh := settings.Mesh
	c.ConnectTimeout = positiveOrNil(mesh.GetConnectTimeout())
	if own := positiveOrNil(pool.GetTcp().GetConnectTimeout()); own != nil {
		c.ConnectTimeout = own
	}
	limits := &clusterv3.CircuitBreakers_Thresholds{
		MaxConnections:     thresholdOf(pool.GetTcp().GetMaxConnections()),
		MaxPendingRequests: thresholdOf(pool.GetHttp().GetHttp1MaxPendingRequests()),
		MaxRequests:        thresholdOf(pool.GetHttp().GetHttp2MaxRequests()),
		MaxRetries:         thresholdOf(pool.GetHttp().GetMaxRetries()),
		TrackRemaining:     settings.Features.TrackRemaining,
		RetryBudget:        newRetryBudget(budget),
	}
	c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{limits}}
	applyBufferLimit(c, mesh.GetDefaultConfig().GetConnectionSettings().GetClusterPerConnectionBufferLimitBytes())
	applyKeepalive(c, mesh.GetTcpKeepalive())
	applyKeepalive(c, pool.GetTcp().GetTcpKeepalive())
}

// applyBufferLimit limits the bytes that are buffered of a connection whose peer reads slower than
// the other side writes (ProxyConfig.connectionSettings). It does nothing if bytes is nil or
// negative.
func applyBufferLimit(c *clusterv3.Cluster, bytes *wrapperspb.Int32Value) {
	if bytes != nil && bytes.GetValue() >= 0 {
		c.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(bytes.GetValue()))
	}
}

// thresholdOf returns the threshold n of a circuit breaker, or the highest number if n is not
// positive. "No limit" is explicit, because Envoy's defaults (1024, and 3 retries) are too low for
// a mesh in which endpoints come and go.
func thresholdOf(n int32) *wrapperspb.UInt32Value {
	if n <= 0 {
		return wrapperspb.UInt32(math.MaxUint32)
	}
	return wrapperspb.UInt32(uint32(n))
}

// newRetryBudget converts TrafficPolicy.RetryBudget, with the defaults that its API documents: 20
// percent, at least 3. It returns nil for nil. An interval that is not positive is left out.
func newRetryBudget(b *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers_Thresholds_RetryBudget {
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
		BudgetInterval:      positiveOrNil(b.BudgetInterval),
		MinRetryConcurrency: wrapperspb.UInt32(least),
	}
}

// applyKeepalive sets TCP keepalive probes on c, unless k is nil. Unset fields of k, and 0 probes,
// keep the values of an earlier call, or the system's defaults. Durations are cut to whole seconds.
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
