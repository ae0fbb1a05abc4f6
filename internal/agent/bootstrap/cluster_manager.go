package bootstrap

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Socket option numbers of Linux, see socket(7): setsockopt(fd, SOL_SOCKET, SO_MARK, …).
const (
	solSocket = 1
	soMark    = 36
)

// clusterManager returns the settings for all clusters: the local cluster (EnableSelfDiscovery),
// the log of ejected hosts (OutlierLogPath) and the mark of Envoy's own connections (SocketMark).
// Each is left out unless it is configured.
func clusterManager(in Input) *bootstrapv3.ClusterManager {
	m := &bootstrapv3.ClusterManager{}
	if in.Node.Metadata.EnableSelfDiscovery {
		m.LocalClusterName = mesh.LocalCluster
	}
	if in.OutlierLogPath != "" {
		m.OutlierDetection = &bootstrapv3.ClusterManager_OutlierDetection{EventLogPath: in.OutlierLogPath}
	}
	if in.SocketMark != 0 {
		// This applies to all clusters, static or dynamic, except clusters with their own bind
		// configuration, because Envoy does not merge the two. A control plane that sends such a
		// cluster must repeat the mark (node metadata MESHPILOT_SOCKET_MARK). Otherwise its
		// connections are captured and routed back to Envoy in a loop.
		m.UpstreamBindConfig = &corev3.BindConfig{SocketOptions: []*corev3.SocketOption{{
			Description: "SO_MARK: capture leaves the proxy's own connections alone",
			Level:       solSocket,
			Name:        soMark,
			Value:       &corev3.SocketOption_IntValue{IntValue: int64(in.SocketMark)},
			State:       corev3.SocketOption_STATE_PREBIND,
		}}}
	}
	return m
}
