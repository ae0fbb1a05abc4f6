package bootstrap

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// tcpKeepalive converts ConnectionPoolSettings.TCPSettings.TcpKeepalive, which may be nil, rounding
// down to whole seconds. Values that are not set, and 0 probes, leave Envoy's default. The result
// is never nil.
func tcpKeepalive(k *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) *corev3.TcpKeepalive {
	out := &corev3.TcpKeepalive{
		KeepaliveTime: wholeSeconds(k.GetTime()), KeepaliveInterval: wholeSeconds(k.GetInterval()),
	}
	if k.GetProbes() > 0 {
		out.KeepaliveProbes = wrapperspb.UInt32(k.GetProbes())
	}
	return out
}

// wholeSeconds returns a duration rounded down to whole seconds, at least 0, or nil if d is nil.
func wholeSeconds(d *durationpb.Duration) *wrapperspb.UInt32Value {
	if d == nil {
		return nil
	}
	return wrapperspb.UInt32(uint32(min(max(d.AsDuration()/time.Second, 0), math.MaxUint32)))
}
