package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// applyOutlierDetection lets Envoy eject endpoints that fail, unless o is nil. Detection by success
// rate is always off: it needs more endpoints and traffic than a sidecar sees. Settings that are
// unset have Envoy's defaults. 0 consecutive 5xx or gateway errors turn that detection off; 0 local
// origin failures mean Envoy's default. Local origin failures count only if
// splitExternalLocalOriginErrors is set.
//
// It always sets Envoy's panic mode, the fallback to all endpoints when too few are healthy. That
// is off unless minHealthPercent is set: services of a mesh have few endpoints, and unready ones
// must not be called. With sendUnhealthy (Settings.AlwaysSendsUnhealthy) it is always off.
// c.CommonLbConfig must not be nil.
func applyOutlierDetection(c *clusterv3.Cluster, o *networking.OutlierDetection, sendUnhealthy bool) {
	panicAt := max(o.GetMinHealthPercent(), 0)
	if sendUnhealthy {
		panicAt = 0
	}
	c.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: float64(panicAt)}
	if o == nil {
		return
	}
	out := &clusterv3.OutlierDetection{
		EnforcingSuccessRate: wrapperspb.UInt32(0),
		Interval:             positiveOrNil(o.Interval),
		BaseEjectionTime:     positiveOrNil(o.BaseEjectionTime),
	}
	out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = consecutive(o.Consecutive_5XxErrors)
	out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = consecutive(o.ConsecutiveGatewayErrors)
	if o.MaxEjectionPercent > 0 {
		out.MaxEjectionPercent = wrapperspb.UInt32(uint32(o.MaxEjectionPercent))
	}
	if o.SplitExternalLocalOriginErrors {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if o.GetConsecutiveLocalOriginFailures().GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure, out.EnforcingConsecutiveLocalOriginFailure = consecutive(
				o.ConsecutiveLocalOriginFailures,
			)
		}
	}
	c.OutlierDetection = out
}

// consecutive returns the number of consecutive errors that eject an endpoint, and the percentage
// of ejections: 100, or 0 (off) if n is 0. For nil both are nil, Envoy's defaults.
func consecutive(n *wrapperspb.UInt32Value) (count, enforcing *wrapperspb.UInt32Value) {
	switch {
	case n == nil:
		return nil, nil
	case n.Value == 0:
		return wrapperspb.UInt32(0), wrapperspb.UInt32(0)
	default:
		return wrapperspb.UInt32(n.Value), wrapperspb.UInt32(100)
	}
}
